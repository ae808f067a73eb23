#pragma once

#include <tuple>
#include <type_traits>

#include "manta/core/archive_json.h"
#include "manta/core/function.h"

namespace manta {

namespace detail {

template <class F>
inline constexpr bool has_loop_signature = false;
template <class F>
requires std::is_void_v<typename SignatureOf<F>::Result>
inline constexpr bool has_loop_signature<F> =
    std::is_same_v<typename SignatureOf<F>::Parameters, std::tuple<>> ||
    std::is_same_v<typename SignatureOf<F>::Parameters, std::tuple<Json>>;

/// Checks that a TrainLoop can be made of F; every other type gets one message. True if it can.
template <class F>
constexpr bool require_train_loop() {
  constexpr bool kFunction = is_function_pointer<F> || HasCallOperator<F>;
  static_assert(kFunction,
                "manta: train_loop_per_worker must be a plain function or a lambda without "
                "captures, void() or void(const Json& config); a lambda's parameter needs a type "
                "(no `auto`)");
  if constexpr (kFunction) {
    constexpr bool kTravels = is_function_pointer<F> || std::is_empty_v<F>;
    static_assert(kTravels,
                  "manta: train_loop_per_worker runs in other processes, where what a lambda "
                  "captures does not exist. Put values into train_loop_config, and take them from "
                  "the loop's parameter: [](const Json& config) {...}");
    constexpr bool kSignature = has_loop_signature<F>;
    static_assert(kSignature,
                  "manta: train_loop_per_worker must be void() or void(const Json& config), where "
                  "config is train_loop_config; results go to train::report");
    return kTravels && kSignature;
  } else {
    return false;
  }
}

}  // namespace detail

/// What every worker runs: a plain function or a lambda without captures, `void(const Json&
/// config)` or `void()`.
class TrainLoop {
 public:
  TrainLoop() = default;
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, TrainLoop>)
      TrainLoop(F loop)  // NOLINT: a function is a loop
      : empty_(false) {
    if constexpr (detail::require_train_loop<F>()) {
      function_ = detail::make_function(loop);
      takes_config_ = std::is_invocable_v<F, const Json&>;
    }
  }

  explicit operator bool() const { return !empty_; }
  const internal::Function& function() const { return function_; }
  bool takes_config() const { return takes_config_; }

 private:
  internal::Function function_;
  bool takes_config_ = true;
  bool empty_ = true;
};

}  // namespace manta
