#pragma once

#include <limits>

#include "manta/torch/lr_schedule.h"

namespace manta {

struct ReduceLROnPlateauOptions {
  bool maximize = false;    ///< True: the metric should rise, as an accuracy.
  double factor = 0.1;      ///< What the rate is multiplied by; below 1.
  int64_t patience = 10;    ///< Steps without improvement that are let pass.
  double threshold = 1e-4;  ///< How much better counts as better:
  bool relative = true;     ///< that share of the best value, or that amount.
  int64_t cooldown = 0;     ///< Steps after a reduction in which bad ones are not counted.
  double min_lr = 0;        ///< The rate never falls below this.
  double eps = 1e-8;        ///< A smaller change of the rate is not made.
};

/// Reduces the learning rate when a metric stops improving: Python's ReduceLROnPlateau, in double
/// precision (libtorch's ReduceLROnPlateauScheduler takes a float). Give every worker the same
/// metric, or their rates diverge. The optimizer must outlive it.
class ReduceLROnPlateau final : public StatefulScheduler {
 public:
  explicit ReduceLROnPlateau(torch::optim::Optimizer& optimizer,
                             ReduceLROnPlateauOptions options = {});
  /// Once per evaluation. NaN is no improvement.
  void step(double metric);
  std::vector<double> get_last_lr() const;
  double best() const { return best_; }

  std::string type() const override { return "ReduceLROnPlateau"; }
  Json state() const override;
  void load_state(const Json& state) override;

 private:
  bool is_better(double metric) const;
  void reduce();
  Json options() const;

  torch::optim::Optimizer* optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  int64_t bad_steps_ = 0;
  int64_t cooldown_left_ = 0;
};

}  // namespace manta
