// Against Python's autocast and GradScaler: expected/make_precision_expected.py made the numbers.

#include <gmock/gmock.h>
#include <torch/cuda.h>
#include <torch/nn.h>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/torch/autocast.h"
#include "manta/torch/grad_scaler.h"
#include "manta/torch/seed_and_device.h"

namespace manta::train {
namespace {

using testing::HasSubstr;

constexpr const char* kPrecisionExpected =
#include "manta/torch/expected/precision_expected.inc"
    ;
constexpr int64_t kRowsOfStep = 8;

torch::Tensor formula(int64_t count, int64_t start) {
  torch::Tensor values = torch::empty({count});
  for (int64_t i = 0; i < count; ++i) {
    values.data_ptr<float>()[i] = static_cast<float>((start + i) * 7919 % 1009 - 504) / 512;
  }
  return values;
}

struct PrecisionNet {
  torch::nn::Sequential model{torch::nn::Linear(4, 16), torch::nn::Tanh(),
                              torch::nn::Linear(16, 1)};
  PrecisionNet() {
    torch::NoGradGuard no_grad;
    int64_t start = 1;
    for (auto& parameter : model->parameters()) {
      parameter.copy_(formula(parameter.numel(), start).view_as(parameter));
      start += parameter.numel();
    }
  }
  torch::Tensor flat() {
    std::vector<torch::Tensor> parts;
    for (auto& parameter : model->parameters()) parts.push_back(parameter.detach().flatten());
    return torch::cat(parts);
  }
};

/// Does the same as the script. bfloat16 has 8 bits: how sums are rounded depends on the processor,
/// so results are compared to a hundredth.
void expect_as_python(const char* name, torch::ScalarType dtype, GradScaler scaler,
                      int accumulate) {
  SCOPED_TRACE(name);
  Json expected = Json::parse(kPrecisionExpected).at(name);
  PrecisionNet net;
  torch::optim::SGD optimizer(net.model->parameters(), 0.05);
  for (int step = 0; step < 12; ++step) {
    torch::Tensor inputs = formula(kRowsOfStep * 4, 100 + step * kRowsOfStep * 4).view({-1, 4});
    if (step == 3 || step == 7) inputs = inputs * 1e5;
    torch::Tensor targets = formula(kRowsOfStep, 5000 + step * kRowsOfStep).view({-1, 1});
    torch::Tensor loss;
    {
      Autocast autocast({.dtype = dtype});
      torch::Tensor outputs = net.model->forward(inputs);
      EXPECT_EQ(outputs.scalar_type(), dtype);
      loss = torch::mse_loss(outputs.to(torch::kFloat), targets) / accumulate;
    }
    scaler.scale(loss).backward();
    const Json& wanted = expected.at("losses").at(static_cast<size_t>(step));
    double got = loss.item<double>();
    if (wanted.is_string()) {
      EXPECT_FALSE(std::isfinite(got));
    } else {
      EXPECT_NEAR(got, wanted.get<double>(), 0.01 * std::max(1.0, wanted.get<double>())) << step;
    }
    if ((step + 1) % accumulate == 0) {
      scaler.unscale_(optimizer);
      torch::nn::utils::clip_grad_norm_(net.model->parameters(), 1.0);
      EXPECT_EQ(scaler.step(optimizer), wanted.is_number()) << step;
      scaler.update();
      optimizer.zero_grad();
    }
    EXPECT_EQ(scaler.get_scale(), expected.at("scales").at(static_cast<size_t>(step)));
  }
  auto weights = torch::tensor(expected.at("weights").get<std::vector<double>>(), torch::kFloat);
  EXPECT_LT((net.flat() - weights).abs().max().item<double>(), 0.01);
  if (scaler.is_enabled()) {
    EXPECT_EQ(scaler.state(), expected.at("state"));
  }
}

TEST(Precision, TrainsAsPython) {
  torch::set_num_threads(1);
  expect_as_python("float16", torch::kFloat16,
                   GradScaler({.init_scale = 1024, .growth_interval = 3}), 1);
  expect_as_python("bfloat16", torch::kBFloat16, GradScaler({.enabled = false}), 1);
  expect_as_python("accumulated", torch::kBFloat16, GradScaler({.enabled = false}), 4);
}

TEST(Precision, AutocastEndsWithItsScope) {
  torch::nn::Linear linear(4, 2);
  torch::Tensor inputs = torch::ones({3, 4});
  auto type = [&] { return linear(inputs).scalar_type(); };
  {
    Autocast outer;
    EXPECT_EQ(type(), torch::kBFloat16);
    {
      Autocast half({.dtype = torch::kFloat16});
      EXPECT_EQ(type(), torch::kFloat16);
      Autocast off({.enabled = false});
      EXPECT_EQ(type(), torch::kFloat);
    }
    EXPECT_EQ(type(), torch::kBFloat16);
  }
  EXPECT_EQ(type(), torch::kFloat);
  EXPECT_THAT(message_of([] { Autocast wrong({.dtype = torch::kFloat64}); }),
              HasSubstr("must be torch::kBFloat16 or torch::kFloat16 (was Double)"));
  EXPECT_EQ(type(), torch::kFloat);
}

TEST(Precision, TheScalersMisuseIsSaid) {
  torch::Tensor x = torch::ones({2}, torch::requires_grad());
  torch::optim::SGD optimizer({x}, 0.1);
  GradScaler scaler;
  EXPECT_THAT(message_of([&] { scaler.step(optimizer); }),
              HasSubstr("need scale(loss).backward()"));
  EXPECT_THAT(message_of([&] { scaler.update(); }), HasSubstr("needs a step()"));
  scaler.scale(x.sum()).backward();
  scaler.unscale_(optimizer);
  EXPECT_TRUE(torch::equal(x.grad(), torch::ones({2})));
  EXPECT_THAT(message_of([&] { scaler.unscale_(optimizer); }), HasSubstr("was already called"));
  EXPECT_TRUE(scaler.step(optimizer));
  EXPECT_THAT(message_of([&] { scaler.step(optimizer); }), HasSubstr("was already called"));
  EXPECT_THAT(message_of([] { GradScaler({.growth_factor = 1}); }),
              HasSubstr("growth_factor must be above 1 (was 1)"));
  EXPECT_THAT(message_of([&] { scaler.load_state({{"scale", 1}}); }), HasSubstr("growth_factor"));
}

// Otherwise the scale would become 0, and the model would stop learning without an error.
TEST(Precision, TheScalerSaysWhenNoScaleIsSmallEnough) {
  torch::Tensor x = torch::ones({2}, torch::requires_grad());
  torch::optim::SGD optimizer({x}, 0.1);
  GradScaler scaler({.init_scale = 4e-38});
  auto step = [&] {
    optimizer.zero_grad();
    scaler.scale((x * INFINITY).sum()).backward();
    EXPECT_FALSE(scaler.step(optimizer));
    scaler.update();
  };
  step();
  EXPECT_THAT(message_of(step), HasSubstr("infinite or NaN however small the scale is"));
  EXPECT_TRUE(torch::equal(x, torch::ones({2})));
}

TEST(SeedAll, MakesNumbersRepeat) {
  EXPECT_EQ(seed_all(7), 7);
  torch::Tensor first = torch::rand({3});
  int number = std::rand();
  EXPECT_EQ(seed_all(7, {.per_rank = true}), 7) << "outside of a run there is rank 0";
  EXPECT_TRUE(torch::equal(torch::rand({3}), first));
  EXPECT_EQ(std::rand(), number);
}

TEST(SeedAll, MakesAlgorithmsDeterministicIfAsked) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(false, false);
  seed_all(7);
  EXPECT_FALSE(context.deterministicAlgorithms());
  seed_all(7, {.deterministic = true});
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  context.setDeterministicAlgorithms(false, false);
}

TEST(GetDevice, OutsideOfAWorkerIsTheGpuThatIsSeenOrTheCpu) {
  const char* set = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string old = set ? set : "";
  // Slurm may set the first, even if libtorch is for CPUs; users who want the CPU set the second.
  for (const char* visible : {"0", "-1"}) {
    ::setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    EXPECT_EQ(get_device(), torch::cuda::is_available() ? torch::Device(torch::kCUDA, 0)
                                                        : torch::Device(torch::kCPU))
        << visible;
  }
  if (set) {
    ::setenv("CUDA_VISIBLE_DEVICES", old.c_str(), 1);
  } else {
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
}

}  // namespace
}  // namespace manta::train
