#include "manta/core/function.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "manta/base/error_internal.h"

namespace manta {

// Not in the anonymous namespace, so that their names look like those of a user's functions.
namespace function_test {

int add(int a, int b) { return a + b; }
std::string greet(const std::string& name) { return "hello " + name; }
struct Place {
  int x = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(x);
  }
};
int take_point(Place point) { return point.x; }
template <class T>
T twice(T value) {
  return 2 * value;
}

class Tally {
 public:
  explicit Tally(int start) : count_(start) {}
  int add(int step) { return count_ += step; }
  int count() const noexcept { return count_; }
  void clear() { count_ = 0; }

 private:
  int count_;
};

}  // namespace function_test

namespace {

using namespace function_test;
using testing::HasSubstr;

struct HiddenPoint {
  int x = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(x);
  }
};
int hidden(HiddenPoint point) { return point.x; }

struct Hidden {
  int value() { return 9; }
  int pick(HiddenPoint point) { return point.x; }
};

template <class T>
struct Box {
  T get(const T& value) { return value; }
};

template <auto Method, class T>
Function method_function() {
  return {detail::thunk_address<detail::MethodThunk<Method, T>>(), {}};
}

// Calls as a worker does.
template <class R, class... A>
R call(const Function& function, const A&... arguments) {
  auto [thunk, target] = resolve_function(function);
  Value args = to_value(std::tuple<A...>(arguments...));
  std::vector<RefArgument> no_refs;
  std::vector<Value> no_values;
  Invocation invocation;
  invocation.target = target;
  invocation.args = &args;
  invocation.ref_args = &no_refs;
  invocation.ref_values = &no_values;
  thunk(invocation);
  return from_value<R>(invocation.result);
}

std::string refusal(const Function& function) {
  try {
    resolve_function(function);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "resolved";
}

TEST(FunctionTest, PlainFunctionsAreFoundAgain) {
  Function function = detail::make_function(&add);
  EXPECT_EQ(function.thunk.build_id, program_build_id());
  EXPECT_EQ(function.target.build_id, program_build_id());
  EXPECT_EQ(resolve_function(function).second, reinterpret_cast<void (*)()>(&add));
  EXPECT_EQ((call<int>(function, 2, 3)), 5);
  EXPECT_EQ((call<std::string>(detail::make_function(&greet), std::string("you"))), "hello you");
}

TEST(FunctionTest, FunctionsOfOneSignatureShareAThunk) {
  int (*subtract)(int, int) = [](int a, int b) { return a - b; };
  Function first = detail::make_function(&add), second = detail::make_function(subtract);
  EXPECT_EQ(first.thunk, second.thunk);
  EXPECT_FALSE(first.target == second.target);
  EXPECT_EQ((call<int>(second, 2, 3)), -1);
}

TEST(FunctionTest, LambdasAreFoundAgain) {
  Function function = detail::make_function([](int a, std::string b) { return str(a, b); });
  EXPECT_EQ(function.target.offset, 0u);
  EXPECT_EQ(resolve_function(function).second, nullptr);
  EXPECT_EQ((call<std::string>(function, 2, std::string("x"))), "2x");
}

TEST(FunctionTest, MethodsAreFoundAgain) {
  std::shared_ptr<void> instance = std::make_shared<Tally>(10);
  Value args = to_value(5);
  std::vector<RefArgument> no_refs;
  std::vector<Value> no_values;
  Invocation invocation;
  invocation.args = &args;
  invocation.ref_args = &no_refs;
  invocation.ref_values = &no_values;
  invocation.instance = &instance;
  resolve_function(method_function<&Tally::add, Tally>()).first(invocation);
  EXPECT_EQ(from_value<int>(invocation.result), 15);
  resolve_function(method_function<&Tally::clear, Tally>()).first(invocation);
  resolve_function(method_function<&Tally::count, Tally>()).first(invocation);
  EXPECT_EQ(from_value<int>(invocation.result), 0);
}

TEST(FunctionTest, ReferencesTakeTheirArgumentsPlaces) {
  Function function =
      detail::make_function([](int a, int b, std::string c) { return str(a, "-", b, "-", c); });
  Value args = to_value(2);  // only b came by value
  std::vector<RefArgument> refs{{0, 100}, {2, 101}};
  std::vector<Value> values{to_value(1), to_value(std::string("3"))};
  Invocation invocation;
  invocation.args = &args;
  invocation.ref_args = &refs;
  invocation.ref_values = &values;
  resolve_function(function).first(invocation);
  EXPECT_EQ(from_value<std::string>(invocation.result), "1-2-3");
}

TEST(FunctionTest, AnotherBuildIsRefusedAndBothAreNamed) {
  Function function = detail::make_function(&add);
  function.thunk.build_id.fill(0xab);
  EXPECT_THAT(refusal(function), HasSubstr("build abababababababababababababababababababab was"));
  EXPECT_THAT(refusal(function), HasSubstr("is build " + to_hex(program_build_id())));
  function = detail::make_function(&add);
  function.target.build_id.fill(0xcd);
  EXPECT_THAT(refusal(function), HasSubstr("cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"));
}

TEST(FunctionTest, WhatIsNoThunkIsRefused) {
  Function good = detail::make_function(&add);
  for (uint64_t offset : {good.thunk.offset + 1, good.thunk.offset - 1, good.target.offset,
                          uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
    Function bad = good;
    bad.thunk.offset = offset;
    EXPECT_THAT(refusal(bad), HasSubstr(str("offset 0x", std::hex, offset, " of build ")));
    EXPECT_THAT(refusal(bad), HasSubstr("which is no function that this program sends"));
  }
}

TEST(FunctionTest, WhereNoFunctionStartsIsRefused) {
  static int data = 0;
  Function good = detail::make_function(&add);
  auto base = reinterpret_cast<uintptr_t>(&add) - good.target.offset;
  for (uint64_t offset : {good.target.offset + 1, good.target.offset - 1, uint64_t{1}, UINT64_MAX,
                          reinterpret_cast<uintptr_t>(&data) - base}) {
    Function bad = good;
    bad.target.offset = offset;
    EXPECT_THAT(refusal(bad), HasSubstr("where no function starts")) << offset;
  }
}

// Most systems have only a stripped copy of the C library.
TEST(FunctionTest, WhereNoFunctionStartsIsRefusedInStrippedModulesToo) {
  Function good = detail::make_function(&add);
  good.target = locate_code(::dlsym(RTLD_DEFAULT, "getenv"));
  resolve_function(good);
  for (uint64_t offset : {1, 4, 5, 16}) {
    Function bad = good;
    bad.target.offset += offset;
    EXPECT_THAT(refusal(bad), HasSubstr("where no function starts")) << offset;
  }
}

TEST(FunctionTest, WhatIsInNoModuleCannotBeSent) {
  int local = 0;
  EXPECT_THROW(locate_code(&local), Error);
  EXPECT_THROW(locate_code(nullptr), Error);
}

TEST(FunctionTest, SharedLibrariesAreModulesOfTheirOwn) {
  void* address = ::dlsym(RTLD_DEFAULT, "getenv");
  ASSERT_NE(address, nullptr);
  CodeAddress code = locate_code(address);
  EXPECT_NE(code.build_id, program_build_id());
  EXPECT_EQ(locate_code(address), code);
}

TEST(FunctionTest, NamesAreReadable) {
  auto lambda = [](int) { return 1; };
  struct Case {
    Function function;
    const char* name;
  };
  for (const auto& [function, name] : std::vector<Case>{
           {detail::make_function(&add), "manta::function_test::add"},
           {detail::make_function(&take_point), "manta::function_test::take_point"},
           {detail::make_function(&hidden), "manta::hidden"},
           {method_function<&Tally::add, Tally>(), "manta::function_test::Tally::add"},
           {method_function<&Tally::count, Tally>(), "manta::function_test::Tally::count"},
           {method_function<&Hidden::value, Hidden>(), "manta::Hidden::value"},
           {method_function<&Hidden::pick, Hidden>(), "manta::Hidden::pick"},
           {method_function<&Box<int>::get, Box<int>>(), "manta::Box<int>::get"},
           {method_function<&Box<std::vector<int>>::get, Box<std::vector<int>>>(),
            "manta::Box<std::vector<int, std::allocator<int> > >::get"}}) {
    EXPECT_EQ(describe_function(function), name);
  }
  EXPECT_THAT(describe_function(detail::make_function(&twice<int>)), HasSubstr("twice<int>"));
  EXPECT_THAT(describe_function(detail::make_function(lambda)),
              testing::EndsWith("TestBody()::{lambda(int)#1}"));
  int (*converted)(int) = lambda;
  EXPECT_THAT(describe_function(detail::make_function(converted)),
              testing::EndsWith("TestBody()::{lambda(int)#1}"));
}

TEST(FunctionTest, WhatHasNoNameIsDescribedByItsPlace) {
  Function function = detail::make_function(&add);
  function.target.offset += 1;
  EXPECT_THAT(describe_function(function), HasSubstr(str("+0x", std::hex, function.target.offset)));
  function.target.build_id.fill(1);
  EXPECT_THAT(describe_function(function), HasSubstr("unknown module+0x"));
}

}  // namespace
}  // namespace manta
