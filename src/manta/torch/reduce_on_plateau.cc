#include "manta/torch/reduce_on_plateau.h"

#include <algorithm>
#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/json_number_internal.h"

namespace manta {

ReduceLROnPlateau::ReduceLROnPlateau(torch::optim::Optimizer& optimizer,
                                     ReduceLROnPlateauOptions options)
    : optimizer_(&optimizer), options_(options), best_(options.maximize ? -INFINITY : INFINITY) {
  if (!(options_.factor > 0 && options_.factor < 1)) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("ReduceLROnPlateau: factor must be above 0 and below 1 (was ",
                           options_.factor, ")"));
  }
  if (options_.patience < 0 || options_.cooldown < 0) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("ReduceLROnPlateau: patience and cooldown must not be negative (were ",
                           options_.patience, " and ", options_.cooldown, ")"));
  }
}

bool ReduceLROnPlateau::is_better(double metric) const {
  double sign = options_.maximize ? 1 : -1;
  double bar = options_.relative ? best_ * (1 + sign * options_.threshold)
                                 : best_ + sign * options_.threshold;
  return options_.maximize ? metric > bar : metric < bar;
}

void ReduceLROnPlateau::step(double metric) {
  if (is_better(metric)) {
    best_ = metric;
    bad_steps_ = 0;
  } else {
    ++bad_steps_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_steps_ = 0;
  }
  if (bad_steps_ <= options_.patience) return;
  reduce();
  cooldown_left_ = options_.cooldown;
  bad_steps_ = 0;
}

void ReduceLROnPlateau::reduce() {
  for (auto& group : optimizer_->param_groups()) {
    double now = group.options().get_lr();
    double next = std::max(now * options_.factor, options_.min_lr);
    if (now - next > options_.eps) group.options().set_lr(next);
  }
}

std::vector<double> ReduceLROnPlateau::get_last_lr() const {
  std::vector<double> rates;
  for (const auto& group : optimizer_->param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

Json ReduceLROnPlateau::options() const {
  return {{"maximize", options_.maximize}, {"factor", options_.factor},
          {"patience", options_.patience}, {"threshold", options_.threshold},
          {"relative", options_.relative}, {"cooldown", options_.cooldown},
          {"min_lr", options_.min_lr},     {"eps", options_.eps}};
}

Json ReduceLROnPlateau::state() const {
  return {{"best", encode_number(best_)},
          {"bad_steps", bad_steps_},
          {"cooldown_left", cooldown_left_},
          {"options", options()}};
}

void ReduceLROnPlateau::load_state(const Json& state) {
  JsonFields fields(state, std::string("state.json"));
  int64_t bad = fields.integer("bad_steps", 0, INT64_MAX - 1);
  int64_t cooldown = fields.integer("cooldown_left", 0, INT64_MAX);
  auto best = decode_number(fields.any("best"));
  if (!best) {
    throw Error(ErrorKind::kCorrupt, manta::str("state.json has ", short_text(fields.any("best")),
                                                " as the best metric"));
  }
  if (fields.any("options") != options()) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("it has the options ", options().dump(), ", in the checkpoint they are ",
                           fields.any("options").dump(), "; make it with the same"));
  }
  best_ = *best;
  bad_steps_ = bad;
  cooldown_left_ = cooldown;
}

}  // namespace manta
