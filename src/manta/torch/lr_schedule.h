#pragma once

#include <torch/optim.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "manta/base/json.h"

namespace manta {

/// A learning-rate scheduler whose progress a TorchCheckpoint keeps. If you derive from it (also
/// together with torch::optim::LRScheduler), `add_scheduler` and `load_scheduler` take your
/// scheduler.
class StatefulScheduler {
 public:
  virtual ~StatefulScheduler() = default;
  /// Names the class in a checkpoint. Loading the state of another class is an error.
  virtual std::string type() const = 0;
  /// Everything that `load_state` needs. Infinities and NaN are kept.
  virtual Json state() const = 0;
  /// Makes it continue where the stored scheduler was. If `state` does not fit, throws
  /// Error(kInvalidArgument) or any std::exception, and changes nothing.
  virtual void load_state(const Json& state) = 0;
};

/// A learning rate that is a function of the number of steps: the part of Python's
/// torch.optim.lr_scheduler that libtorch lacks. As in Python, making a schedule takes each group's
/// rate as its initial rate and sets the rates of step 0, and `step()` comes after the optimizer's.
/// The optimizer must outlive it. Loading its state sets the number of steps and the initial rates;
/// its options must be those of the checkpoint.
class LRSchedule : public StatefulScheduler {
 public:
  void step();
  int64_t steps() const { return steps_; }
  /// The rate of each parameter group.
  std::vector<double> get_last_lr() const;
  const std::vector<double>& initial_lrs() const { return initial_lrs_; }

  /// The rate after `step` steps of a group that began with `initial`. A function of its arguments
  /// and the options alone.
  virtual double rate(double initial, int64_t step) const = 0;
  virtual Json options() const = 0;

  Json state() const final;
  void load_state(const Json& state) final;

 protected:
  explicit LRSchedule(torch::optim::Optimizer& optimizer);
  LRSchedule(torch::optim::Optimizer& optimizer, std::vector<double> initial_lrs);
  /// Sets the rates of the step that was reached. Constructors call it last.
  void apply();
  /// What a schedule changes besides the rate, e.g. the momentum.
  virtual void apply_more(torch::optim::OptimizerParamGroup&, int64_t) const {}
  friend class LinearWarmup;

 private:
  torch::optim::Optimizer* optimizer_;
  std::vector<double> initial_lrs_;
  int64_t steps_ = 0;
};

struct CosineAnnealingOptions {
  int64_t t_max = 0;   ///< Required: steps from the initial rate to `eta_min`; then it rises again.
  double eta_min = 0;  ///< The least rate.
};

/// Half a cosine from the initial rate to `eta_min`: Python's CosineAnnealingLR.
class CosineAnnealingLR final : public LRSchedule {
 public:
  CosineAnnealingLR(torch::optim::Optimizer& optimizer, CosineAnnealingOptions options);
  std::string type() const override { return "CosineAnnealingLR"; }
  double rate(double initial, int64_t step) const override;
  Json options() const override;

 private:
  CosineAnnealingOptions options_;
};

struct LinearWarmupOptions {
  int64_t steps = 5;              ///< Until the whole rate is reached.
  double start_factor = 1.0 / 3;  ///< The part of the rate at step 0; above 0, at most 1.
};

/// Rises from `start_factor` of the rate to the full rate: Python's LinearLR. Then it stays there,
/// or follows another schedule from that schedule's step 0 on, as Python's SequentialLR does:
///
/// ```
/// LinearWarmup scheduler(optimizer, {.steps = 100}, CosineAnnealingLR(optimizer, {.t_max = 900}));
/// ```
class LinearWarmup final : public LRSchedule {
 public:
  LinearWarmup(torch::optim::Optimizer& optimizer, LinearWarmupOptions options = {});
  template <class Next>
  requires std::is_base_of_v<LRSchedule, Next> LinearWarmup(torch::optim::Optimizer& optimizer,
                                                            LinearWarmupOptions options, Next next)
      : LinearWarmup(optimizer, options, std::make_shared<const Next>(std::move(next))) {}
  std::string type() const override { return "LinearWarmup"; }
  double rate(double initial, int64_t step) const override;
  Json options() const override;

 private:
  LinearWarmup(torch::optim::Optimizer& optimizer, LinearWarmupOptions options,
               std::shared_ptr<const LRSchedule> next);
  void apply_more(torch::optim::OptimizerParamGroup& group, int64_t step) const override;

  LinearWarmupOptions options_;
  std::shared_ptr<const LRSchedule> next_;
};

struct OneCycleOptions {
  double max_lr = 0;        ///< Required: the highest rate, of all groups.
  int64_t total_steps = 0;  ///< Required: of the whole cycle. A step beyond is an error.
  double pct_start = 0.3;   ///< The share of the steps in which the rate rises.
  bool linear = false;      ///< Straight lines instead of cosines.
  /// Moves momentum (SGD, RMSprop) or the first beta (Adam, AdamW) against the rate. Other
  /// optimizers need false.
  bool cycle_momentum = true;
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25;         ///< The first rate is max_lr / div_factor.
  double final_div_factor = 1e4;  ///< The last is the first / final_div_factor.
  /// Falls to the first rate as it rose, then to the last. False: from the highest to the last.
  bool three_phase = false;
};

/// Up to `max_lr` and down to almost nothing, once: Python's OneCycleLR. Step it for each batch.
/// The optimizer's own rates do not matter.
class OneCycleLR final : public LRSchedule {
 public:
  OneCycleLR(torch::optim::Optimizer& optimizer, OneCycleOptions options);
  std::string type() const override { return "OneCycleLR"; }
  double rate(double initial, int64_t step) const override;
  Json options() const override;

 private:
  struct Position {
    double from_lr, to_lr, from_momentum, to_momentum, share;
  };
  Position at(int64_t step) const;
  double between(double from, double to, double share) const;
  void apply_more(torch::optim::OptimizerParamGroup& group, int64_t step) const override;

  OneCycleOptions options_;
};

}  // namespace manta
