// Against PyTorch's DistributedDataParallel: expected/make_ddp_expected.py made the numbers.

#include <gtest/gtest.h>
#include <torch/optim.h>

#include <string>

#include "manta/base/error_internal.h"
#include "manta/base/json.h"
#include "manta/torch/data_parallel.h"
#include "manta/torch/rank_processes_internal.h"

namespace manta::train {
namespace {

constexpr const char* kDdpExpected =
#include "manta/torch/expected/ddp_expected.inc"
    ;
constexpr int kSteps = 25;
constexpr int64_t kRows = 6;

torch::Tensor numbers(int64_t count, int64_t start) {
  torch::Tensor values = torch::empty({count});
  for (int64_t i = 0; i < count; ++i) {
    values.data_ptr<float>()[i] = static_cast<float>((start + i) * 7919 % 1009 - 504) / 512;
  }
  return values;
}

torch::nn::Sequential make_model(int rank) {
  torch::nn::Sequential model(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8), torch::nn::ReLU(),
                              torch::nn::Linear(8, 3));
  torch::NoGradGuard no_grad;
  int64_t start = 1 + rank;  // rank 0's count
  for (auto& parameter : model->parameters()) {
    parameter.copy_(numbers(parameter.numel(), start).view_as(parameter));
    start += parameter.numel();
  }
  return model;
}

void require_expected(const std::string& name, const torch::Tensor& tensor) {
  auto expected = Json::parse(kDdpExpected).at(name).get<std::vector<double>>();
  torch::Tensor values = torch::tensor(expected, torch::kDouble).view(tensor.sizes());
  if (!torch::allclose(tensor.to(torch::kDouble), values, 1e-4, 1e-5)) {
    throw std::runtime_error(manta::str(name, " is\n", tensor, "\nnot\n", values));
  }
}

void train_as_python(const Seat& seat, const SyncOptions& options) {
  auto model = prepare_model(make_model(seat.rank), options);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int step = 0; step < kSteps; ++step) {
    int64_t start = (step * 2 + seat.rank) * kRows;
    torch::Tensor inputs = numbers(kRows * 4, 100 + start * 4).view({kRows, 4});
    torch::Tensor targets = numbers(kRows * 3, 5000 + start * 3).view({kRows, 3});
    optimizer.zero_grad();
    torch::mse_loss(model->forward(inputs), targets).backward();
    optimizer.step();
  }
  model->eval();
  torch::NoGradGuard no_grad;
  require_expected("outputs", model->forward(numbers(kRows * 4, 77).view({kRows, 4})));
  for (const auto& item : model->named_parameters()) require_expected(item.key(), item.value());
  for (const auto& item : model->named_buffers()) require_expected(item.key(), item.value());
}

class Ddp : public testing::TestWithParam<std::tuple<BackendKind, size_t>> {};

TEST_P(Ddp, TrainsAsPython) {
  auto [kind, limit] = GetParam();
  RankProcesses ranks(2, [kind = kind, limit = limit](const Seat& seat) {
    auto group = make_process_group({}, join(kind, seat), seat.rank, seat.size);
    train_as_python(
        seat,
        {.group = group, .rank = seat.rank, .world_size = seat.size, .flat_limit_bytes = limit});
  });
  EXPECT_EQ(ranks.outcome(0), "");
  EXPECT_EQ(ranks.outcome(1), "");
}

std::string name_of(const testing::TestParamInfo<Ddp::ParamType>& info) {
  return str(std::get<0>(info.param) == BackendKind::kShm ? "Shm" : "Gloo",
             std::get<1>(info.param) == 0 ? "Buckets" : "Flat");
}
INSTANTIATE_TEST_SUITE_P(Paths, Ddp,
                         testing::Combine(testing::Values(BackendKind::kShm, BackendKind::kGloo),
                                          testing::Values(size_t{0}, size_t{1} << 20)),
                         name_of);

}  // namespace
}  // namespace manta::train
