#pragma once

#include <concepts>
#include <string>
#include <tuple>
#include <type_traits>

#include "manta/core/archive_json.h"
#include "manta/core/function.h"
#include "manta/core/resources.h"
#include "manta/train/data_parallel_trainer.h"
#include "manta/tune/data_parallel_space.h"
#include "manta/tune/space.h"

namespace manta::tune {

namespace detail {

template <class F>
inline constexpr bool has_trial_signature = false;
template <class F>
requires(std::is_void_v<typename manta::detail::SignatureOf<F>::Result> ||
         std::is_same_v<typename manta::detail::SignatureOf<F>::Result, double> ||
         std::is_same_v<typename manta::detail::SignatureOf<F>::Result,
                        Json>) inline constexpr bool has_trial_signature<F> =
    std::is_same_v<typename manta::detail::SignatureOf<F>::Parameters, std::tuple<Json>>;

template <class F>
constexpr bool require_trial_function() {
  constexpr bool kFunction =
      manta::detail::is_function_pointer<F> || manta::detail::HasCallOperator<F>;
  static_assert(kFunction,
                "manta: a Tuner takes a trainer, or a plain function or lambda without captures: "
                "void, double or Json (const Json& config); a lambda's parameter needs a type (no "
                "`auto`)");
  if constexpr (kFunction) {
    constexpr bool kTravels = manta::detail::is_function_pointer<F> || std::is_empty_v<F>;
    static_assert(
        kTravels,
        "manta: a trial runs in another process, where what a lambda captures does not "
        "exist. Put values into param_space, and take them from the function's parameter");
    constexpr bool kSignature = has_trial_signature<F>;
    static_assert(kSignature,
                  "manta: a function to tune must be void, double or Json (const Json& config): it "
                  "returns the metric, or several as Json, or calls tune::report");
    return kTravels && kSignature;
  } else {
    return false;
  }
}

}  // namespace detail

/// A function that a Tuner tries with several configurations, each time in another process: a plain
/// function or a lambda without captures. Its return value is its last report: a number is the
/// value of TuneConfig::metric ("objective" if there is none); Json has several metrics by name.
class Trainable {
 public:
  enum Returns : uint8_t { kNothing, kNumber, kMetrics };

  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, Trainable>)
      Trainable(F function, Resources resources = {})  // NOLINT: a function is one
      : resources_(std::move(resources)) {
    if constexpr (detail::require_trial_function<F>()) {
      using R = typename manta::detail::SignatureOf<F>::Result;
      function_ = manta::detail::make_function(function);
      returns_ = std::is_void_v<R> ? kNothing : std::is_same_v<R, double> ? kNumber : kMetrics;
    }
  }

  const internal::Function& function() const { return function_; }
  Returns returns() const { return returns_; }
  const Resources& resources() const { return resources_; }

 private:
  internal::Function function_;
  Returns returns_ = kNothing;
  Resources resources_;
};

/// The function with the resources that each of its trials holds. Without this, a trial holds one
/// CPU.
template <class F>
Trainable with_resources(F function, Resources resources) {
  return Trainable(function, std::move(resources));
}

/// The type of the search space: for a trainer, its own Space (that of a DataParallelTrainer is in
/// this layer, because the trainer is below it); otherwise tune::Space.
template <class T>
struct SpaceOf {
  using type = Space;
};
template <std::derived_from<BaseTrainer> T>
struct SpaceOf<T> {
  using type = typename T::Space;
};
template <>
struct SpaceOf<DataParallelTrainer> {
  using type = DataParallelSpace;
};

}  // namespace manta::tune
