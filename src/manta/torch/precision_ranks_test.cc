// Mixed precision over two ranks, against one process that has all rows.

#include <gtest/gtest.h>
#include <torch/optim.h>

#include "manta/base/error_internal.h"
#include "manta/torch/autocast.h"
#include "manta/torch/data_parallel.h"
#include "manta/torch/grad_scaler.h"
#include "manta/torch/rank_processes_internal.h"

namespace manta::train {
namespace {

constexpr int64_t kJoinedRows = 8;
constexpr int kMixedSteps = 12;

struct MixedRun {
  std::vector<torch::Tensor> weights;
  std::vector<double> scales;
  std::vector<bool> steps;  // whether the scaler let each step through
};

// In steps 3 and 7 the first row has a gradient that float16 cannot hold: with two ranks, it is
// rank 0's row.
MixedRun train_mixed(const SyncOptions& options, torch::ScalarType type) {
  torch::manual_seed(1);
  auto model = prepare_model(
      torch::nn::Sequential(torch::nn::Linear(4, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1)),
      options);
  torch::optim::SGD optimizer(model->parameters(), 0.05);
  GradScaler scaler({.init_scale = 1024, .growth_interval = 3, .enabled = type == torch::kHalf});
  int64_t rows = kJoinedRows / options.world_size, begin = options.rank * rows;
  MixedRun run;
  for (int step = 0; step < kMixedSteps; ++step) {
    torch::manual_seed(100 + step);
    torch::Tensor inputs = torch::randn({kJoinedRows, 4});
    torch::Tensor targets = inputs.sum(1, true);
    if (step == 3 || step == 7) inputs[0] *= 1e5;
    torch::Tensor loss;
    {
      Autocast autocast({.dtype = type});
      torch::Tensor outputs = model->forward(inputs.slice(0, begin, begin + rows));
      loss = torch::mse_loss(outputs.to(torch::kFloat), targets.slice(0, begin, begin + rows));
    }
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    model->clip_grad_norm_(1.0);
    run.steps.push_back(scaler.step(optimizer));
    scaler.update();
    run.scales.push_back(scaler.get_scale());
    optimizer.zero_grad();
  }
  for (const torch::Tensor& parameter : model->module()->parameters()) {
    torch::NoGradGuard no_grad;
    run.weights.push_back(parameter.clone());
  }
  return run;
}

/// Both ranks take the same steps, bit by bit. They equal those of one process to a hundredth,
/// because sums in half precision are rounded.
void compare_mixed(const Seat& seat, BackendKind kind, torch::ScalarType type, bool sharded) {
  auto group = make_process_group({}, join(kind, seat), seat.rank, seat.size);
  MixedRun alone = train_mixed({}, type);
  MixedRun mine = train_mixed(
      {.group = group, .rank = seat.rank, .world_size = seat.size, .model = {.sharded = sharded}},
      type);
  if (mine.steps != alone.steps) throw std::runtime_error("other steps were left out");
  if (type == torch::kHalf && mine.steps[3]) throw std::runtime_error("none was left out");
  if (mine.scales != alone.scales) throw std::runtime_error("other scales");
  for (size_t i = 0; i < mine.weights.size(); ++i) {
    const torch::Tensor& weight = mine.weights[i];
    if (!torch::allclose(weight, alone.weights[i], 0.01, 0.01)) {
      throw std::runtime_error(manta::str("weights are\n", weight, "\nnot\n", alone.weights[i]));
    }
    std::vector<torch::Tensor> sum = {weight.to(torch::kDouble)};
    group->allreduce(sum)->wait();
    if (!torch::equal(sum[0], weight.to(torch::kDouble) * seat.size))
      throw std::runtime_error("the ranks' weights differ");
  }
}

TEST(PrecisionOfRanks, IsThatOfOneProcess) {
  for (BackendKind kind : {BackendKind::kShm, BackendKind::kGloo}) {
    for (torch::ScalarType type : {torch::kBFloat16, torch::kHalf}) {
      for (bool sharded : {false, true}) {
        RankProcesses ranks(2, [&](const Seat& seat) { compare_mixed(seat, kind, type, sharded); });
        for (int rank : {0, 1}) {
          EXPECT_EQ(ranks.outcome(rank), "")
              << c10::toString(type) << sharded << static_cast<int>(kind) << rank;
        }
      }
    }
  }
}

}  // namespace
}  // namespace manta::train
