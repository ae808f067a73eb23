#include "manta/data/plan_function.h"

#include <map>
#include <mutex>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta::data {
namespace {

constexpr size_t kLongestArguments = 60;

struct NamedFunction {
  Thunk thunk = nullptr;
  void (*target)() = nullptr;
  detail::Takes takes = detail::Takes::kNothing;
  bool twice = false;  ///< Another function has the name, too.
};

struct Registry {
  std::mutex mutex;
  std::set<Thunk> thunks;
  std::map<std::string, NamedFunction> functions;
};

Registry& registry() {
  static auto* registry = new Registry;  // used during static initialisation and to the very end
  return *registry;
}

Function function_of(const NamedFunction& entry) {
  Function function;
  function.thunk = locate_code(reinterpret_cast<const void*>(entry.thunk));
  if (entry.target) function.target = locate_code(reinterpret_cast<const void*>(entry.target));
  return function;
}

std::string known_names() {
  std::string names;
  for (const auto& [name, entry] : registry().functions) {
    names += str(names.empty() ? "'" : ", '", name, "'");
  }
  return names.empty() ? "none" : names;
}

NamedFunction find_named(const std::string& name) {
  std::lock_guard lock(registry().mutex);
  auto found = registry().functions.find(name);
  if (found == registry().functions.end()) {
    throw Error(ErrorKind::kNotFound,
                str("a plan uses the function ", short_text(name),
                    ", and this program has none of that name; it has ", known_names(),
                    ". Define it at namespace scope: static const auto f = manta::named(",
                    short_text(name), ", function)"));
  }
  if (found->second.twice) {
    throw Error(ErrorKind::kInvalidArgument,
                str("two functions have the name ", short_text(name),
                    ": give one of them another name in manta::named (a lambda in a header needs "
                    "`inline const auto`)"));
  }
  return found->second;
}

}  // namespace

namespace detail {

bool register_batch_thunk(Thunk thunk) {
  std::lock_guard lock(registry().mutex);
  registry().thunks.insert(thunk);
  return register_thunk(thunk);
}

void register_named(const std::string& name, Thunk thunk, void (*target)(), Takes takes) {
  std::lock_guard lock(registry().mutex);
  auto [entry, added] = registry().functions.try_emplace(name, NamedFunction{thunk, target, takes});
  // The error is thrown where the name is used: it could not be caught before main.
  if (entry->second.thunk != thunk || entry->second.target != target) entry->second.twice = true;
}

}  // namespace detail

PlanFunction::PlanFunction(Function function, Value args, std::string name)
    : function_(function), args_(std::move(args)), name_(std::move(name)) {
  if (!name_.empty()) find_named(name_);
  if (!args_.refs.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                "map_batches: the arguments contain an ObjectRef, which a plan cannot hold; pass "
                "the value, get(ref)");
  }
  bind();
}

void PlanFunction::bind() {
  auto [thunk, target] = resolve_function(function_);
  {
    std::lock_guard lock(registry().mutex);
    if (!registry().thunks.contains(thunk)) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("a plan names ", describe_function(function_),
                      ", which is no function that this program gives to map_batches"));
    }
  }
  std::shared_ptr<void> instance;
  Invocation call;
  call.target = target;
  call.args = &args_;
  call.instance = &instance;
  try {
    thunk(call);
  } catch (const Error& error) {
    throw Error(error.kind(), str("reading the arguments of ", function_name(),
                                  " in map_batches: ", error.what()));
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kUserCode, str("reading the arguments of ", function_name(),
                                          " in map_batches: ", error.what()));
  }
  bound_ = std::static_pointer_cast<const BoundFunction>(instance);
}

BatchPtr PlanFunction::operator()(const BatchPtr& batch) const {
  if (bound_->call) return bound_->call(batch);
  throw Error(ErrorKind::kInvalidArgument,
              str(function_name(), " is an aggregate, not a function of batches or rows"));
}

std::string PlanFunction::function_name() const {
  return name_.empty() ? describe_function(function_) : name_;
}

std::string PlanFunction::to_string() const {
  if (!bound_->takes_args) return function_name();
  if (!bound_->json_args) return function_name() + ", with arguments";
  auto text = bound_->json_args->dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongestArguments) text = text.substr(0, kLongestArguments) + "...";
  return str(function_name(), ", ", text);
}

std::string PlanFunction::why_not_stored() const {
  if (!bound_->why_not_stored.empty()) return bound_->why_not_stored;
  if (name_.empty()) {
    return str("the function ", function_name(),
               " of map_batches has no name to find it by. Define `static const auto f = "
               "manta::named(\"f\", function);` at namespace scope and pass f instead");
  }
  if (bound_->takes_args && !bound_->json_args) {
    return str("the arguments of the function '", name_,
               "' of map_batches are not Json. Let it take `const Json&`");
  }
  return {};
}

Json PlanFunction::to_json() const {
  if (auto why = why_not_stored(); !why.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "this data set cannot be stored: " + why);
  }
  Json json = {{"name", name_}};
  if (bound_->json_args) json["args"] = *bound_->json_args;
  return json;
}

PlanFunction PlanFunction::from_json(const JsonFields& fields) {
  std::string name = fields.text("name", kLongestName);
  auto entry = find_named(name);
  if (fields.has("args") != (entry.takes == detail::Takes::kJson)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("a plan gives the function '", name, "' ",
                    fields.has("args") ? "arguments as JSON" : "no arguments",
                    ", and in this program it takes ",
                    entry.takes == detail::Takes::kNothing ? "none"
                    : entry.takes == detail::Takes::kJson  ? "some as JSON"
                                                           : "arguments of another type",
                    "; build the data set again"));
  }
  Value args;
  if (fields.has("args")) args = to_value(fields.any("args"));
  return PlanFunction(function_of(entry), std::move(args), name);
}

void PlanFunction::save(OutArchive& archive) const { archive(function_, args_, name_); }

void PlanFunction::load(InArchive& archive) {
  archive(function_, args_, name_);
  bind();
}

}  // namespace manta::data
