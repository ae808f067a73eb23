#pragma once

#include <torch/optim.h>
#include <torch/types.h>

#include <cstdint>
#include <map>

#include "manta/base/json.h"

namespace manta::train {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;     ///< Of the scale after `growth_interval` good steps; above 1.
  double backoff_factor = 0.5;  ///< Of the scale after an infinity or NaN; below 1.
  int64_t growth_interval = 2000;
  bool enabled = true;  ///< False: scale() gives the loss, step() steps, the rest does nothing.
};

/// Keeps small gradients of float16 from becoming zero: multiplies the loss by a scale, divides the
/// gradients by it again, leaves out steps whose gradients are infinite or NaN, and adapts the
/// scale. Python's torch.amp.GradScaler.
///
/// ``` scaler.scale(loss).backward(); scaler.unscale_(optimizer); // only to clip gradients before
/// the step scaler.step(optimizer); scaler.update(); ``` All workers decide the same: averaged
/// gradients have the infinities of all workers, and with a sharded model the workers tell each
/// other. TorchCheckpoint::add_scaler keeps its state.
class GradScaler {
 public:
  /// Throws Error(kInvalidArgument) if an option is out of its range.
  explicit GradScaler(const GradScalerOptions& options = {});

  torch::Tensor scale(const torch::Tensor& loss);
  /// Divides the gradients of the optimizer's parameters by the scale. At most once between two
  /// updates: a second time throws Error(kInvalidArgument).
  void unscale_(torch::optim::Optimizer& optimizer);
  /// Unscales, unless unscale_ was called, and steps, unless a gradient is infinite or NaN. Returns
  /// whether it stepped. Optimizers that need a closure (LBFGS) cannot be used.
  bool step(torch::optim::Optimizer& optimizer);
  /// Call it once after the steps of all optimizers. Throws Error(kUserCode) if the gradients are
  /// infinite or NaN however small the scale is, because the model would learn nothing any more.
  void update();

  double get_scale() const { return options_.enabled ? scale_ : 1; }
  bool is_enabled() const { return options_.enabled; }
  /// Python's state_dict(), with its names.
  Json state() const;
  /// Throws Error(kCorrupt) naming the field if it is not such a state.
  void load_state(const Json& state);

 private:
  enum class Stage { kUnscaled, kStepped };
  struct Progress {
    Stage stage = Stage::kUnscaled;
    bool found_inf = false;
  };

  GradScalerOptions options_;
  double scale_;
  int64_t growth_tracker_ = 0;
  bool scaled_ = false;  ///< Since the last update.
  std::map<const torch::optim::Optimizer*, Progress> optimizers_;
};

}  // namespace manta::train
