#pragma once

#include <type_traits>
#include <utility>

#include "manta/core/archive_json.h"
#include "manta/core/function.h"
#include "manta/train/config.h"

namespace manta {

/// Trains a model. A trainer is a description until fit() is called.
class Trainer {
 public:
  virtual ~Trainer() = default;
  /// Blocks until the run has ended.
  virtual Result fit() = 0;
};

/// What every worker runs: a plain function or a lambda without captures, `void(const Json&
/// config)` or `void()`.
class TrainLoop {
 public:
  TrainLoop() = default;
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, TrainLoop>)
      TrainLoop(F loop)  // NOLINT: a function is a loop
      : function_(make(loop)), takes_config_(std::is_invocable_v<F, const Json&>), empty_(false) {}

  explicit operator bool() const { return !empty_; }
  const Function& function() const { return function_; }
  bool takes_config() const { return takes_config_; }

 private:
  template <class F>
  static Function make(F loop) {
    detail::require_callable<F>();
    static_assert(std::is_invocable_r_v<void, F, const Json&> || std::is_invocable_r_v<void, F>,
                  "manta: a training loop is void(const Json& config) or void()");
    return detail::make_function(loop);
  }

  Function function_;
  bool takes_config_ = true;
  bool empty_ = true;
};

}  // namespace manta
