#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "manta/core/value.h"

namespace manta::internal {

/// A place in a program's code that means the same in every process of the same build: the module
/// (the program or a shared library, by the build id from the linker) and the offset in it.
struct CodeAddress {
  std::array<uint8_t, 20> build_id{};
  uint64_t offset = 0;  ///< 0: nowhere.

  bool operator==(const CodeAddress&) const = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(build_id, offset);
  }
};

/// The CodeAddress of an address in this process. Throws Error(kInvalidArgument) if its module was
/// linked without a build id.
CodeAddress locate_code(const void* address);
/// The running program's build id, and a build id in hex.
std::array<uint8_t, 20> program_build_id();
std::string to_hex(const std::array<uint8_t, 20>& build_id);

/// An argument given as a reference: the referenced value takes the place of parameter `index`.
struct RefArgument {
  uint32_t index = 0;
  ObjectId id = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(index, id);
  }
};

/// One call on the receiving side: where a thunk reads its arguments and writes its result.
struct Invocation {
  void (*target)() = nullptr;   ///< The plain function, if the thunk calls one.
  const Value* args = nullptr;  ///< The arguments passed by value.
  const std::vector<RefArgument>* ref_args = nullptr;
  const std::vector<Value>* ref_values = nullptr;  ///< In the order of `ref_args`.
  std::shared_ptr<void>* instance = nullptr;       ///< The actor that this process is.
  Value result;
  /// Keeps alive what the result refers to, until the result has been sent.
  std::shared_ptr<void> keep_alive;
};

/// Rebuilds typed arguments, calls, and serialises the result. One is compiled for every signature,
/// lambda or method that the program sends.
using Thunk = void (*)(Invocation&);

/// Registers a thunk that this program may be asked to run. The templates below call it, before
/// main.
bool register_thunk(Thunk thunk);

/// How a function is named on the wire.
struct Function {
  CodeAddress thunk;
  CodeAddress target;  ///< Nowhere, unless the thunk calls a plain function.

  template <class Archive>
  void serialize(Archive& archive) {
    archive(thunk, target);
  }
};

/// Its name in the program: "add", "Counter::add", "main::{lambda(int)#1}"; "program+0x1234" if
/// there are no symbols.
std::string describe_function(const Function& function);

/// The addresses in this process of a function that another process names. Throws
/// Error(kInvalidArgument) if it is of another build (naming both), if this program did not
/// register the thunk, or if no function starts at the target.
std::pair<Thunk, void (*)()> resolve_function(const Function& function);

}  // namespace manta::internal

namespace manta::detail {

/// Reads one parameter after the other: from the bytes, or from the value of a reference.
class ArgumentReader {
 public:
  explicit ArgumentReader(const Invocation& call) : call_(call), archive_(call.args->body()) {
    archive_.large_buffers = call.args->memory;
  }
  template <class T>
  T next() {
    uint32_t index = index_++;
    if (next_ref_ < call_.ref_args->size() && (*call_.ref_args)[next_ref_].index == index) {
      return from_value<T>((*call_.ref_values)[next_ref_++]);
    }
    T value;
    read_value(archive_, value);
    return value;
  }

 private:
  const Invocation& call_;
  InArchive archive_;
  uint32_t index_ = 0;
  size_t next_ref_ = 0;
};

template <class R, class Call>
void set_result(Invocation& invocation, Call&& call) {
  if constexpr (std::is_void_v<R>) {
    call();
  } else {
    std::decay_t<R> result = call();
    invocation.result = to_value(result);
    if (!invocation.result.refs.empty()) {
      invocation.keep_alive = std::make_shared<std::decay_t<R>>(std::move(result));
    }
  }
}

template <class A>
inline constexpr bool is_mutable_reference =
    std::is_lvalue_reference_v<A> && !std::is_const_v<std::remove_reference_t<A>>;

template <class F>
struct Signature;
template <class R, class... A>
struct Signature<R (*)(A...)> {
  static_assert(!(is_mutable_reference<A> || ...),
                "manta: a parameter of a function that runs in another process cannot be a "
                "non-const reference: the "
                "caller would not see the change. Take it by value or by const reference, and "
                "return the result");
  using Result = R;
  using Parameters = std::tuple<std::decay_t<A>...>;
};
template <class R, class... A>
struct Signature<R (*)(A...) noexcept> : Signature<R (*)(A...)> {};
template <class T, class R, class... A>
struct Signature<R (T::*)(A...)> : Signature<R (*)(A...)> {};
template <class T, class R, class... A>
struct Signature<R (T::*)(A...) const> : Signature<R (*)(A...)> {};
template <class T, class R, class... A>
struct Signature<R (T::*)(A...)&> : Signature<R (*)(A...)> {};
template <class T, class R, class... A>
struct Signature<R (T::*)(A...) const&> : Signature<R (*)(A...)> {};
template <class T, class R, class... A>
struct Signature<R (T::*)(A...) noexcept> : Signature<R (*)(A...)> {};
template <class T, class R, class... A>
struct Signature<R (T::*)(A...) const noexcept> : Signature<R (*)(A...)> {};

template <class... P>
std::tuple<P...> read_arguments(const Invocation& call, std::type_identity<std::tuple<P...>>) {
  [[maybe_unused]] ArgumentReader reader(call);
  return std::tuple<P...>{reader.next<P>()...};  // braces: from left to right
}

// A static registers each thunk. The thunk's own body uses the static, so a thunk that is used is
// always registered.
template <class F>
struct PointerThunk {
  using S = Signature<F>;
  static void invoke(Invocation& call) {
    (void)&registered;
    auto arguments = read_arguments(call, std::type_identity<typename S::Parameters>());
    auto function = reinterpret_cast<F>(call.target);
    if (!function) throw Error(ErrorKind::kInvalidArgument, "a call names no function");
    set_result<typename S::Result>(
        call, [&]() -> decltype(auto) { return std::apply(function, std::move(arguments)); });
  }
  static inline const bool registered = register_thunk(&invoke);
};

template <class F>
struct LambdaThunk {
  using S = Signature<decltype(&F::operator())>;
  static void invoke(Invocation& call) {
    (void)&registered;
    auto arguments = read_arguments(call, std::type_identity<typename S::Parameters>());
    set_result<typename S::Result>(
        call, [&]() -> decltype(auto) { return std::apply(F{}, std::move(arguments)); });
  }
  static inline const bool registered = register_thunk(&invoke);
};

template <class T, class... A>
struct ConstructThunk {
  static void invoke(Invocation& call) {
    (void)&registered;
    auto arguments = read_arguments(call, std::type_identity<std::tuple<A...>>());
    *call.instance =
        std::apply([](auto&&... a) { return std::make_shared<T>(std::forward<decltype(a)>(a)...); },
                   std::move(arguments));
  }
  static inline const bool registered = register_thunk(&invoke);
};

template <auto Method, class T>
struct MethodThunk {
  using S = Signature<decltype(Method)>;
  static void invoke(Invocation& call) {
    (void)&registered;
    auto arguments = read_arguments(call, std::type_identity<typename S::Parameters>());
    auto& object = *static_cast<T*>(call.instance->get());
    set_result<typename S::Result>(call, [&]() -> decltype(auto) {
      return std::apply(
          [&](auto&&... a) -> decltype(auto) {
            return (object.*Method)(std::forward<decltype(a)>(a)...);
          },
          std::move(arguments));
    });
  }
  static inline const bool registered = register_thunk(&invoke);
};

template <class ThunkType>
const CodeAddress& thunk_address() {
  static const CodeAddress address = locate_code(reinterpret_cast<const void*>(&ThunkType::invoke));
  return address;
}

template <class F>
inline constexpr bool is_function_pointer =
    std::is_pointer_v<F>&& std::is_function_v<std::remove_pointer_t<F>>;

template <class F>
concept HasCallOperator = requires {
  &F::operator();
};

/// What `remote` and similar functions accept. Every other type gets a message instead of a page of
/// template errors.
template <class F>
constexpr void require_callable() {
  static_assert(is_function_pointer<F> || std::is_class_v<F>,
                "manta: expected a plain function or a lambda without captures");
  if constexpr (std::is_class_v<F>) {
    static_assert(HasCallOperator<F>,
                  "manta: the lambda's parameters need types of their own (no `auto`), and it "
                  "needs one operator()");
    static_assert(
        std::is_empty_v<F> && std::is_default_constructible_v<F>,
        "manta: a lambda with captures cannot travel to another process. Pass what it captures as "
        "arguments: remote([](int x) {...}, x)");
  }
}

template <class F>
struct SignatureOf : Signature<F> {};
template <class F>
requires std::is_class_v<F>
struct SignatureOf<F> : Signature<decltype(&F::operator())> {
};

template <class F>
Function make_function(F function) {
  if constexpr (is_function_pointer<F>) {
    return {thunk_address<PointerThunk<F>>(), locate_code(reinterpret_cast<const void*>(function))};
  } else {
    return {thunk_address<LambdaThunk<F>>(), {}};
  }
}

}  // namespace manta::detail
