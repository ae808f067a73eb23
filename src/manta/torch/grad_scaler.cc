#include "manta/torch/grad_scaler.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>

#include <cmath>
#include <limits>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/torch/sharded_sync.h"

namespace manta::train {
namespace {

// Divides, and says whether one of the gradients is infinite or NaN.
bool unscale_gradients(const std::vector<torch::Tensor>& gradients, double scale) {
  if (gradients.empty()) return false;
  torch::NoGradGuard no_grad;
  std::map<std::pair<int, int>, std::vector<torch::Tensor>> kinds;  // one call takes one kind
  for (const torch::Tensor& gradient : gradients) {
    kinds[{static_cast<int>(gradient.scalar_type()), gradient.device().index()}].push_back(
        gradient);
  }
  bool found = false;
  for (auto& [kind, list] : kinds) {
    auto options = torch::TensorOptions().dtype(torch::kFloat32).device(list[0].device());
    torch::Tensor found_inf = torch::zeros({1}, options);
    torch::Tensor inverse = torch::full({1}, 1 / scale, options);
    at::_amp_foreach_non_finite_check_and_unscale_(list, found_inf, inverse);
    found = found || found_inf.item<float>() != 0;
  }
  return found;
}

[[noreturn]] void misuse(const char* what) {
  throw Error(ErrorKind::kInvalidArgument, manta::str("GradScaler: ", what));
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), scale_(options.init_scale) {
  auto check_option = [](bool good, const char* name, const char* expected, auto value) {
    if (good) return;
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("GradScaler: ", name, " must be ", expected, " (was ", value, ")"));
  };
  check_option(options.init_scale > 0, "init_scale", "positive", options.init_scale);
  check_option(options.growth_factor > 1, "growth_factor", "above 1", options.growth_factor);
  check_option(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor",
               "above 0 and below 1", options.backoff_factor);
  check_option(options.growth_interval > 0, "growth_interval", "positive", options.growth_interval);
}

torch::Tensor GradScaler::scale(const torch::Tensor& loss) {
  if (!options_.enabled) return loss;
  scaled_ = true;
  return loss * scale_;
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled) return;
  if (optimizers_.contains(&optimizer)) {
    misuse("unscale_() was already called for this optimizer since the last update()");
  }
  if (!scaled_) misuse("unscale_() and step() need scale(loss).backward() since the last update()");
  std::vector<torch::Tensor> gradients, parameters;
  for (auto& group : optimizer.param_groups()) {
    for (torch::Tensor& parameter : group.params()) {
      parameters.push_back(parameter);
      torch::Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined()) continue;
      if (gradient.scalar_type() == torch::kFloat16) {
        misuse(
            "a parameter is float16 itself; keep parameters in float32, and compute in float16 "
            "with Autocast");
      }
      gradients.push_back(gradient.layout() == torch::kStrided ? gradient : gradient._values());
    }
  }
  bool found = unscale_gradients(gradients, scale_);
  optimizers_[&optimizer] = {Stage::kUnscaled, detail::any_of_shards(parameters, found)};
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  if (!optimizers_.contains(&optimizer)) unscale_(optimizer);
  Progress& progress = optimizers_.at(&optimizer);
  if (progress.stage == Stage::kStepped) {
    misuse("step() was already called for this optimizer since the last update()");
  }
  progress.stage = Stage::kStepped;
  if (!progress.found_inf) optimizer.step();
  return !progress.found_inf;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  if (optimizers_.empty()) misuse("update() needs a step() or unscale_() before it");
  bool found = false;
  for (const auto& [optimizer, progress] : optimizers_) found = found || progress.found_inf;
  // As a float32, like Python: it stays finite.
  if (found) {
    auto reduced = static_cast<float>(scale_ * options_.backoff_factor);
    if (reduced < std::numeric_limits<float>::min()) {
      throw Error(ErrorKind::kUserCode,
                  manta::str("GradScaler: the gradients are infinite or NaN however small the ",
                             "scale is (", scale_, " now), so that no step is made any more; it ",
                             "is the loss itself, or what the model computes in forward, that ",
                             "overflows: look at both, or at the learning rate"));
    }
    scale_ = reduced;
    growth_tracker_ = 0;
  } else if (++growth_tracker_ == options_.growth_interval) {
    auto grown = static_cast<float>(scale_ * options_.growth_factor);
    if (std::isfinite(grown)) scale_ = grown;
    growth_tracker_ = 0;
  }
  optimizers_.clear();
  scaled_ = false;
}

Json GradScaler::state() const {
  return {{"scale", scale_},
          {"growth_factor", options_.growth_factor},
          {"backoff_factor", options_.backoff_factor},
          {"growth_interval", options_.growth_interval},
          {"_growth_tracker", growth_tracker_}};
}

void GradScaler::load_state(const Json& state) {
  JsonFields fields(state, std::string("state.json"), "scalers.");
  constexpr double kMost = 3.4e38;
  GradScalerOptions options{.init_scale = fields.number("scale", 1e-300, kMost),
                            .growth_factor = fields.number("growth_factor", 1, kMost),
                            .backoff_factor = fields.number("backoff_factor", 1e-300, 1),
                            .growth_interval = fields.integer("growth_interval", 1, INT64_MAX),
                            .enabled = options_.enabled};
  int64_t tracker = fields.integer("_growth_tracker", 0, options.growth_interval);
  scale_ = options.init_scale;
  options.init_scale = options_.init_scale;
  options_ = options;
  growth_tracker_ = tracker;
}

}  // namespace manta::train
