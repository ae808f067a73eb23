// Against Python's schedulers: expected/make_schedulers_expected.py made the numbers.

#include "manta/torch/lr_schedule.h"

#include <gmock/gmock.h>

#include <cmath>

#include "manta/base/error_of_internal.h"
#include "manta/torch/reduce_on_plateau.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kSchedulersExpected =
#include "manta/torch/expected/schedulers_expected.inc"
    ;

struct TwoGroups {
  explicit TwoGroups(double momentum = 0) : optimizer(groups(), options(0.1, momentum)) {}
  static torch::optim::SGDOptions options(double lr, double momentum) {
    return torch::optim::SGDOptions(lr).momentum(momentum);
  }
  static std::vector<torch::optim::OptimizerParamGroup> groups() {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (double lr : {0.5, 0.02}) {
      groups.emplace_back(std::vector<torch::Tensor>{torch::zeros({1}, torch::requires_grad())},
                          std::make_unique<torch::optim::SGDOptions>(options(lr, 0)));
    }
    return groups;
  }
  torch::optim::SGD optimizer;
};

double momentum_of(torch::optim::Optimizer& optimizer) {
  auto& options = optimizer.param_groups()[0].options();
  if (auto* sgd = dynamic_cast<torch::optim::SGDOptions*>(&options)) return sgd->momentum();
  return std::get<0>(dynamic_cast<torch::optim::AdamOptions&>(options).betas());
}

/// Each row: the rates of the groups, then the first one's momentum.
template <class Scheduler, class Step>
void expect_rates(const char* name, torch::optim::Optimizer& optimizer, Scheduler& scheduler,
                  const Step& step) {
  SCOPED_TRACE(name);
  Json expected = Json::parse(kSchedulersExpected).at(name);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i > 0) step(i);
    std::vector<double> rates = scheduler.get_last_lr();
    ASSERT_EQ(rates.size() + 1, expected[i].size());
    for (size_t group = 0; group < rates.size(); ++group) {
      EXPECT_NEAR(rates[group], expected[i][group].get<double>(), 1e-12) << "step " << i;
    }
    EXPECT_NEAR(momentum_of(optimizer), expected[i].back().get<double>(), 1e-12) << "step " << i;
  }
}

template <class Scheduler>
void expect_rates(const char* name, torch::optim::Optimizer& optimizer, Scheduler scheduler) {
  expect_rates(name, optimizer, scheduler, [&](size_t) { scheduler.step(); });
}

TEST(LRSchedule, GivesPythonsRates) {
  TwoGroups a, b, c, d, e;
  expect_rates("cosine", a.optimizer, CosineAnnealingLR(a.optimizer, {.t_max = 8}));
  expect_rates("cosine_eta_min_and_on", b.optimizer,
               CosineAnnealingLR(b.optimizer, {.t_max = 7, .eta_min = 0.01}));
  expect_rates("warmup", c.optimizer,
               LinearWarmup(c.optimizer, {.steps = 6, .start_factor = 0.25}));
  expect_rates("warmup_default", d.optimizer, LinearWarmup(d.optimizer));
  expect_rates("warmup_then_cosine", e.optimizer,
               LinearWarmup(e.optimizer, {.steps = 4, .start_factor = 0.1},
                            CosineAnnealingLR(e.optimizer, {.t_max = 10})));
}

TEST(OneCycle, GivesPythonsRatesAndMomenta) {
  Json expected = Json::parse(kSchedulersExpected);
  auto sgd = [] {
    TwoGroups made;
    for (auto& group : made.optimizer.param_groups()) {
      static_cast<torch::optim::SGDOptions&>(group.options()).momentum(0.9);
    }
    return made;
  };
  TwoGroups a = sgd(), b = sgd(), c = sgd();
  torch::optim::Adam adam({torch::zeros({1}, torch::requires_grad())}, 0.1);
  expect_rates("one_cycle", a.optimizer,
               OneCycleLR(a.optimizer, {.max_lr = 0.8, .total_steps = 20}));
  expect_rates("one_cycle_linear", b.optimizer,
               OneCycleLR(b.optimizer, {.max_lr = 0.8,
                                        .total_steps = 15,
                                        .pct_start = 0.4,
                                        .linear = true,
                                        .base_momentum = 0.7,
                                        .max_momentum = 0.9,
                                        .div_factor = 10,
                                        .final_div_factor = 100}));
  expect_rates("one_cycle_three_phases", adam,
               OneCycleLR(adam, {.max_lr = 0.3, .total_steps = 21, .three_phase = true}));
  expect_rates(
      "one_cycle_without_momentum", c.optimizer,
      OneCycleLR(c.optimizer, {.max_lr = 0.8, .total_steps = 10, .cycle_momentum = false}));
}

TEST(ReduceLROnPlateauTest, GivesPythonsRates) {
  Json metrics = Json::parse(kSchedulersExpected).at("metrics");
  auto metric = [&](size_t step) {
    const Json& value = metrics[step - 1];
    return value.is_string() ? NAN : value.get<double>();
  };
  TwoGroups a, b;
  ReduceLROnPlateau falling(a.optimizer, {.factor = 0.3, .patience = 2});
  expect_rates("plateau", a.optimizer, falling, [&](size_t i) { falling.step(metric(i)); });
  ReduceLROnPlateau rising(b.optimizer, {.maximize = true,
                                         .factor = 0.5,
                                         .patience = 1,
                                         .threshold = 0.1,
                                         .relative = false,
                                         .cooldown = 2,
                                         .min_lr = 0.01});
  expect_rates("plateau_maximize", b.optimizer, rising, [&](size_t i) { rising.step(metric(i)); });
}

TEST(LRSchedule, BadOptionsAreSaid) {
  TwoGroups two;
  auto& optimizer = two.optimizer;
  EXPECT_THAT(message_of([&] { CosineAnnealingLR(optimizer, {}); }),
              HasSubstr("CosineAnnealingLR: t_max must be positive (was 0)"));
  EXPECT_THAT(message_of([&] { LinearWarmup(optimizer, {.start_factor = 1.5}); }),
              HasSubstr("start_factor must be above 0 and at most 1 (was 1.5)"));
  EXPECT_THAT(message_of([&] { OneCycleLR(optimizer, {.max_lr = 1}); }),
              HasSubstr("total_steps must be positive (was 0)"));
  EXPECT_THAT(message_of([&] { ReduceLROnPlateau(optimizer, {.factor = 1}); }),
              HasSubstr("factor must be above 0 and below 1 (was 1)"));
  torch::optim::Adagrad adagrad({torch::zeros({1}, torch::requires_grad())}, 0.1);
  EXPECT_THAT(message_of([&] { OneCycleLR(adagrad, {.max_lr = 1, .total_steps = 5}); }),
              HasSubstr("set cycle_momentum = false"));
  OneCycleLR cycle(optimizer, {.max_lr = 1, .total_steps = 2});
  cycle.step();
  cycle.step();
  EXPECT_THAT(message_of([&] { cycle.step(); }), HasSubstr("this is step 3, but total_steps is 2"));
  CosineAnnealingLR cosine(optimizer, {.t_max = 4});
  optimizer.add_param_group(torch::optim::OptimizerParamGroup(
      std::vector<torch::Tensor>{torch::zeros({1}, torch::requires_grad())}));
  EXPECT_THAT(message_of([&] { cosine.step(); }),
              HasSubstr("made for 2 parameter groups, the optimizer has 3 now"));
}

}  // namespace
}  // namespace manta
