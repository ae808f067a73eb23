#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "manta/core/function.h"
#include "manta/predict/predictor.h"

namespace manta {
namespace internal {

/// Registers a thunk that makes a predictor: `Invocation::instance` holds a Checkpoint, and a
/// std::unique_ptr<Predictor> when the thunk returns.
bool register_predictor_thunk(Thunk thunk);
/// Gives a factory a name, which files use. If two factories have the same name, using the name is
/// an error.
bool register_predictor_name(const std::string& name, Thunk thunk, void (*target)());
/// The name of a class in files.
std::string predictor_class_name(const std::type_info& type);

}  // namespace internal

namespace detail {

template <class T>
inline constexpr bool is_predictor_pointer = false;
template <std::derived_from<Predictor> T>
inline constexpr bool is_predictor_pointer<std::unique_ptr<T>> = true;

template <class F>
constexpr bool makes_predictor() {
  constexpr bool kTravels = is_function_pointer<F> || (HasCallOperator<F> && std::is_empty_v<F> &&
                                                       std::is_default_constructible_v<F>);
  if constexpr (kTravels && std::is_invocable_v<F, const Checkpoint&>) {
    using Made = std::invoke_result_t<F, const Checkpoint&>;
    return std::derived_from<Made, Predictor> || is_predictor_pointer<Made>;
  } else {
    return false;
  }
}

/// Gives one message that says what is wrong, instead of a page of template errors.
template <class F>
constexpr bool require_predictor_maker() {
  constexpr bool kFunction = is_function_pointer<F> || HasCallOperator<F>;
  static_assert(kFunction,
                "manta: a predictor is made by its class, as in from_checkpoint<XGBoostPredictor>, "
                "or by a plain function or a lambda without captures that takes `const "
                "Checkpoint&` and returns a predictor");
  if constexpr (kFunction) {
    constexpr bool kTravels = is_function_pointer<F> || std::is_empty_v<F>;
    static_assert(
        kTravels,
        "manta: a predictor is made in other processes, too, where what a lambda captures "
        "does not exist. Use a lambda without captures: [](const Checkpoint& checkpoint) "
        "{ return TorchPredictor::from_checkpoint(checkpoint, Net()); }");
    static_assert(!kTravels || makes_predictor<F>(),
                  "manta: the function that makes a predictor must take `const Checkpoint&` and "
                  "return a class derived from Predictor, or a std::unique_ptr to one");
  }
  return makes_predictor<F>();
}

template <class Made>
std::unique_ptr<Predictor> to_predictor(Made made) {
  if constexpr (is_predictor_pointer<Made>) {
    return made;
  } else {
    return std::make_unique<Made>(std::move(made));
  }
}

template <class Make>
void make_predictor(Invocation& call, Make make) {
  auto predictor = to_predictor(make(*static_cast<const Checkpoint*>(call.instance->get())));
  *call.instance = std::make_shared<std::unique_ptr<Predictor>>(std::move(predictor));
}

template <class F>
struct PredictorThunk {
  static void invoke(Invocation& call) {
    (void)&registered;
    if constexpr (is_function_pointer<F>) {
      if (!call.target) throw Error(ErrorKind::kInvalidArgument, "no function is named");
      make_predictor(call, reinterpret_cast<F>(call.target));
    } else {
      make_predictor(call, F{});
    }
  }
  static inline const bool registered = register_predictor_thunk(&invoke);
};

template <PredictorFromCheckpoint T>
struct PredictorClassThunk {
  static void invoke(Invocation& call) {
    (void)&registered;
    make_predictor(call, [](const Checkpoint& from) { return T::from_checkpoint(from); });
  }
  static inline const bool registered =
      register_predictor_thunk(&invoke) &&
      register_predictor_name(predictor_class_name(typeid(T)), &invoke, nullptr);
};

}  // namespace detail

/// Makes a predictor from a checkpoint, in any process of this run: by its class, or by a plain
/// function for predictors that need more than the checkpoint:
///
///     PredictorFactory::of<XGBoostPredictor>()
///     TorchPredictor make_torch(const Checkpoint& checkpoint);
///     PredictorFactory(make_torch)
///
/// Factories are sent to other processes of the run with cereal, as functions are
/// (core/function.h). A file has only a name: that of the class, or the one that `named` gives to a
/// function.
class PredictorFactory {
 public:
  PredictorFactory() = default;  ///< None.
  template <class F>
  requires(!std::same_as<F, PredictorFactory>)
      PredictorFactory(F make) {  // NOLINT: a function makes predictors
    if constexpr (detail::require_predictor_maker<F>()) {
      function_.thunk = detail::thunk_address<detail::PredictorThunk<F>>();
      if constexpr (detail::is_function_pointer<F>) {
        function_.target = internal::locate_code(reinterpret_cast<const void*>(make));
      }
    }
  }
  template <class F>
  PredictorFactory(Named<F> make)  // NOLINT: as above
      : PredictorFactory(make.function) {
    name_ = std::move(make.name);
  }
  template <class T>
  static PredictorFactory of() {
    static_assert(
        PredictorFromCheckpoint<T>,
        "manta: expected a class derived from Predictor with a `static T "
        "from_checkpoint(const Checkpoint&)`. One that needs more than the checkpoint is "
        "made by a function: from_checkpoint(checkpoint, [](const Checkpoint& c) { return "
        "TorchPredictor::from_checkpoint(c, Net()); })");
    PredictorFactory factory;
    if constexpr (PredictorFromCheckpoint<T>) {
      factory.function_.thunk = detail::thunk_address<detail::PredictorClassThunk<T>>();
      factory.name_ = internal::predictor_class_name(typeid(T));
    }
    return factory;
  }

  explicit operator bool() const { return function_.thunk.offset != 0; }
  /// Throws what the class or the function throws, or Error(kUserCode) naming it if that is not an
  /// Error; Error(kInvalidArgument) if this program cannot make a predictor that way.
  std::unique_ptr<Predictor> make(const Checkpoint& checkpoint) const;
  /// The class or the function, for people.
  std::string to_string() const;

  /// The name in files; empty if it has none.
  const std::string& name() const { return name_; }
  /// The factory of that name. Throws Error(kNotFound) with the names that exist.
  static PredictorFactory from_name(const std::string& name);

  bool operator==(const PredictorFactory& other) const {
    return function_.thunk == other.function_.thunk && function_.target == other.function_.target;
  }
  template <class Archive>
  void serialize(Archive& archive) {
    archive(function_, name_);
  }

 private:
  internal::Function function_;
  std::string name_;
};

/// Gives a function that makes predictors a name, so that a data set of its predictions can be
/// stored. Call it at namespace scope:
///
///     static const auto make_tips = manta::named("make_tips", make_torch);
///     ...
///     BatchPredictor::from_checkpoint(checkpoint, make_tips)
template <class F>
requires(detail::makes_predictor<F>()) Named<F> named(const std::string& name, F make) {
  void (*target)() = nullptr;
  if constexpr (detail::is_function_pointer<F>) target = reinterpret_cast<void (*)()>(make);
  internal::register_predictor_name(name, &detail::PredictorThunk<F>::invoke, target);
  return {name, make};
}

}  // namespace manta
