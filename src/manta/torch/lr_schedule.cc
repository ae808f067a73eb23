#include "manta/torch/lr_schedule.h"

#include <cmath>
#include <numbers>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/json_number_internal.h"

namespace manta {
namespace {

std::vector<double> rates_of(const torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

template <class T>
void require_option(bool good, const char* scheduler, const char* option, const char* expected,
                    T value) {
  if (good) return;
  throw Error(ErrorKind::kInvalidArgument,
              manta::str(scheduler, ": ", option, " must be ", expected, " (was ", value, ")"));
}

// Sets the momentum, or Adam's equivalent. False if the optimizer has neither.
bool set_momentum(torch::optim::OptimizerOptions& options, double momentum) {
  using namespace torch::optim;
  if (auto* sgd = dynamic_cast<SGDOptions*>(&options)) {
    sgd->momentum(momentum);
  } else if (auto* rmsprop = dynamic_cast<RMSpropOptions*>(&options)) {
    rmsprop->momentum(momentum);
  } else if (auto* adam = dynamic_cast<AdamOptions*>(&options)) {
    adam->betas({momentum, std::get<1>(adam->betas())});
  } else if (auto* adamw = dynamic_cast<AdamWOptions*>(&options)) {
    adamw->betas({momentum, std::get<1>(adamw->betas())});
  } else {
    return false;
  }
  return true;
}

}  // namespace

LRSchedule::LRSchedule(torch::optim::Optimizer& optimizer)
    : LRSchedule(optimizer, rates_of(optimizer)) {}

LRSchedule::LRSchedule(torch::optim::Optimizer& optimizer, std::vector<double> initial_lrs)
    : optimizer_(&optimizer), initial_lrs_(std::move(initial_lrs)) {}

void LRSchedule::step() {
  ++steps_;
  apply();
}

void LRSchedule::apply() {
  auto& groups = optimizer_->param_groups();
  if (groups.size() != initial_lrs_.size()) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str(type(), ": it was made for ", initial_lrs_.size(),
                           " parameter groups, the optimizer has ", groups.size(),
                           " now; add groups before you make the scheduler"));
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i].options().set_lr(rate(initial_lrs_[i], steps_));
    apply_more(groups[i], steps_);
  }
}

std::vector<double> LRSchedule::get_last_lr() const { return rates_of(*optimizer_); }

Json LRSchedule::state() const {
  return {{"steps", steps_}, {"initial_lrs", initial_lrs_}, {"options", options()}};
}

void LRSchedule::load_state(const Json& state) {
  JsonFields fields(state, std::string("state.json"));
  int64_t steps = fields.integer("steps", 0, INT64_MAX - 1);
  std::vector<double> rates;
  for (const Json& rate : fields.array("initial_lrs")) {
    auto number = decode_number(rate);
    if (!number) {
      throw Error(ErrorKind::kCorrupt,
                  manta::str("state.json has ", short_text(rate), " as an initial learning rate"));
    }
    rates.push_back(*number);
  }
  if (fields.any("options") != options()) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("it has the options ", options().dump(), ", in the checkpoint they are ",
                           fields.any("options").dump(), "; make it with the same"));
  }
  if (rates.size() != initial_lrs_.size()) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("it is for ", initial_lrs_.size(),
                           " parameter groups, in the checkpoint for ", rates.size()));
  }
  steps_ = steps;
  initial_lrs_ = std::move(rates);
  apply();
}

CosineAnnealingLR::CosineAnnealingLR(torch::optim::Optimizer& optimizer,
                                     CosineAnnealingOptions options)
    : LRSchedule(optimizer), options_(options) {
  require_option(options_.t_max > 0, "CosineAnnealingLR", "t_max", "positive", options_.t_max);
  apply();
}

double CosineAnnealingLR::rate(double initial, int64_t step) const {
  double angle = std::numbers::pi * static_cast<double>(step) / static_cast<double>(options_.t_max);
  return options_.eta_min + (initial - options_.eta_min) * (1 + std::cos(angle)) / 2;
}

Json CosineAnnealingLR::options() const {
  return {{"t_max", options_.t_max}, {"eta_min", options_.eta_min}};
}

LinearWarmup::LinearWarmup(torch::optim::Optimizer& optimizer, LinearWarmupOptions options)
    : LinearWarmup(optimizer, options, std::shared_ptr<const LRSchedule>()) {}

LinearWarmup::LinearWarmup(torch::optim::Optimizer& optimizer, LinearWarmupOptions options,
                           std::shared_ptr<const LRSchedule> next)
    : LRSchedule(optimizer, next ? next->initial_lrs() : rates_of(optimizer)),
      options_(options),
      next_(std::move(next)) {
  require_option(options_.steps > 0, "LinearWarmup", "steps", "positive", options_.steps);
  require_option(options_.start_factor > 0 && options_.start_factor <= 1, "LinearWarmup",
                 "start_factor", "above 0 and at most 1", options_.start_factor);
  apply();
}

double LinearWarmup::rate(double initial, int64_t step) const {
  if (step >= options_.steps) return next_ ? next_->rate(initial, step - options_.steps) : initial;
  double share = static_cast<double>(step) / static_cast<double>(options_.steps);
  return initial * (options_.start_factor + (1 - options_.start_factor) * share);
}

void LinearWarmup::apply_more(torch::optim::OptimizerParamGroup& group, int64_t step) const {
  if (next_ && step >= options_.steps) next_->apply_more(group, step - options_.steps);
}

Json LinearWarmup::options() const {
  Json options = {{"steps", options_.steps}, {"start_factor", options_.start_factor}};
  if (next_) options["next"] = {{"type", next_->type()}, {"options", next_->options()}};
  return options;
}

OneCycleLR::OneCycleLR(torch::optim::Optimizer& optimizer, OneCycleOptions options)
    : LRSchedule(optimizer), options_(options) {
  const char* name = "OneCycleLR";
  require_option(options_.max_lr > 0, name, "max_lr", "positive", options_.max_lr);
  require_option(options_.total_steps > 0, name, "total_steps", "positive", options_.total_steps);
  require_option(options_.pct_start >= 0 && options_.pct_start <= 1, name, "pct_start",
                 "between 0 and 1", options_.pct_start);
  require_option(options_.div_factor > 0, name, "div_factor", "positive", options_.div_factor);
  require_option(options_.final_div_factor > 0, name, "final_div_factor", "positive",
                 options_.final_div_factor);
  apply();
}

OneCycleLR::Position OneCycleLR::at(int64_t step) const {
  if (step > options_.total_steps) {
    throw Error(
        ErrorKind::kInvalidArgument,
        manta::str("OneCycleLR: this is step ", step, ", but total_steps is ", options_.total_steps,
                   "; give it the steps of all epochs together, and call step() once for "
                   "each of the optimizer's"));
  }
  double total = static_cast<double>(options_.total_steps);
  double first = options_.max_lr / options_.div_factor;
  double last = first / options_.final_div_factor;
  double low = options_.base_momentum, high = options_.max_momentum, top = options_.max_lr;
  struct Phase {
    double end, from_lr, to_lr, from_momentum, to_momentum;
  };
  std::vector<Phase> phases = {{options_.pct_start * total - 1, first, top, high, low}};
  if (options_.three_phase) {
    phases.push_back({2 * options_.pct_start * total - 2, top, first, low, high});
    phases.push_back({total - 1, first, last, high, high});
  } else {
    phases.push_back({total - 1, top, last, low, high});
  }
  double begin = 0, now = static_cast<double>(step);
  size_t i = 0;
  while (i + 1 < phases.size() && now > phases[i].end) begin = phases[i++].end;
  const Phase& phase = phases[i];
  double length = phase.end - begin;
  return {phase.from_lr, phase.to_lr, phase.from_momentum, phase.to_momentum,
          length == 0 ? 1 : (now - begin) / length};
}

double OneCycleLR::between(double from, double to, double share) const {
  if (options_.linear) return from + (to - from) * share;
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
}

double OneCycleLR::rate(double, int64_t step) const {
  Position now = at(step);
  return between(now.from_lr, now.to_lr, now.share);
}

void OneCycleLR::apply_more(torch::optim::OptimizerParamGroup& group, int64_t step) const {
  if (!options_.cycle_momentum) return;
  Position now = at(step);
  if (!set_momentum(group.options(), between(now.from_momentum, now.to_momentum, now.share))) {
    throw Error(ErrorKind::kInvalidArgument,
                "OneCycleLR: the optimizer has neither momentum nor betas to cycle; set "
                "cycle_momentum = false");
  }
}

Json OneCycleLR::options() const {
  return {{"max_lr", options_.max_lr},
          {"total_steps", options_.total_steps},
          {"pct_start", options_.pct_start},
          {"linear", options_.linear},
          {"cycle_momentum", options_.cycle_momentum},
          {"base_momentum", options_.base_momentum},
          {"max_momentum", options_.max_momentum},
          {"div_factor", options_.div_factor},
          {"final_div_factor", options_.final_div_factor},
          {"three_phase", options_.three_phase}};
}

}  // namespace manta
