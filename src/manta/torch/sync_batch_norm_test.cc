// Against Python's BatchNorm on the joined batch: expected/make_sync_batch_norm_expected.py made
// the numbers.

#include "manta/torch/sync_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/json.h"
#include "manta/torch/data_parallel.h"
#include "manta/torch/rank_processes_internal.h"

namespace manta::train {
namespace {

using testing::HasSubstr;

constexpr const char* kSyncNormExpected =
#include "manta/torch/expected/sync_batch_norm_expected.inc"
    ;
constexpr int64_t kJoined = 10;

torch::Tensor norm_numbers(int64_t count, int64_t start) {
  torch::Tensor values = torch::empty({count});
  for (int64_t i = 0; i < count; ++i) {
    values.data_ptr<float>()[i] = static_cast<float>((start + i) * 7919 % 1009 - 504) / 512;
  }
  return values;
}

void expect_python(const Json& expected, const std::string& name, const torch::Tensor& got,
                   int64_t begin, int64_t end) {
  auto values = torch::tensor(expected.at(name).get<std::vector<double>>(), torch::kFloat);
  if (begin != end) values = values.view({kJoined, -1}).slice(0, begin, end).flatten();
  if (!torch::allclose(got.detach().flatten().to(torch::kFloat), values, 1e-4, 1e-5)) {
    throw std::runtime_error(manta::str(name, " is\n", got.flatten(), "\nnot\n", values));
  }
}

/// One rank's rows of the joined batch; none of them on a rank whose begin is its end.
void normalize(const Seat& seat, BackendKind kind, const char* name, size_t flat_limit) {
  Json expected = Json::parse(kSyncNormExpected).at(name);
  auto group = make_process_group({}, join(kind, seat), seat.rank, seat.size);
  const std::vector<int64_t> ends = {0, 3, 9, 10};
  auto rank = static_cast<size_t>(seat.rank);
  int64_t begin = ends[rank], end = ends[rank + 1];
  SyncBatchNormOptions options{.group = group};
  if (std::string(name) == "average") options.momentum = std::nullopt;
  torch::nn::Sequential net(torch::nn::Conv1d(2, 3, 1), SyncBatchNorm(3, options));
  {
    torch::NoGradGuard no_grad;
    int64_t start = 1;
    for (auto& parameter : net->parameters()) {
      parameter.copy_(norm_numbers(parameter.numel(), start).view_as(parameter));
      start += parameter.numel();
    }
  }
  double weight = static_cast<double>(end - begin) * seat.size / kJoined;
  auto model = prepare_model(net, {.group = group,
                                   .rank = seat.rank,
                                   .world_size = seat.size,
                                   .weight = [=] { return weight; },
                                   .flat_limit_bytes = flat_limit});
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  torch::Tensor inputs, outputs;
  for (int step = 0; step < 3; ++step) {
    inputs = (norm_numbers(kJoined * 4, 100 + step * 1000).view({kJoined, 2, 2}) * 3 + 5)
                 .slice(0, begin, end)
                 .clone()
                 .requires_grad_();
    torch::Tensor targets =
        norm_numbers(kJoined * 6, 500 + step * 1000).view({kJoined, 3, 2}).slice(0, begin, end);
    optimizer.zero_grad();
    outputs = model->forward(inputs);
    torch::mse_loss(outputs, targets).backward();
    optimizer.step();
  }
  expect_python(expected, "outputs", outputs, begin, end);
  // Each worker's loss is the mean of its rows; weigh_gradient turns it into the mean of all rows
  // times the number of ranks.
  expect_python(expected, "input_gradients", inputs.grad() / seat.size, begin, end);
  for (const auto& item : net->named_parameters()) {
    expect_python(expected, item.key(), item.value(), 0, 0);
  }
  for (const auto& item : net->named_buffers()) {
    expect_python(expected, item.key(), item.value(), 0, 0);
  }
  model->eval();
  expect_python(expected, "evaluated", model->forward(inputs), begin, end);
}

TEST(SyncBatchNormTest, IsBatchNormOfTheJoinedBatch) {
  for (BackendKind kind : {BackendKind::kShm, BackendKind::kGloo}) {
    for (const char* name : {"momentum", "average"}) {
      for (size_t limit : {size_t{0}, size_t{1} << 20}) {
        RankProcesses ranks(3, [&](const Seat& seat) { normalize(seat, kind, name, limit); });
        for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.outcome(rank), "") << name << rank;
      }
    }
  }
}

/// Two ranks in half precision, against BatchNorm of the joined batch in float: the same, except
/// for rounding of the results. The cases include a mean far from 0, which bfloat16 rounds, and a
/// feature whose squared deviations float16 cannot hold.
void normalize_half(const Seat& seat, torch::ScalarType type) {
  constexpr int64_t kRows = 64;
  auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
  torch::manual_seed(1);
  torch::Tensor all =
      torch::randn({kRows, 2}) * torch::tensor({4.0F, 700.0F}) + torch::tensor({300.5F, -40.0F});
  all = all.to(type);
  torch::Tensor slopes = torch::randn({kRows, 2}).to(type);
  SyncBatchNorm norm(2, SyncBatchNormOptions{.group = group});
  torch::nn::BatchNorm1d plain(2);
  {
    torch::NoGradGuard no_grad;
    for (auto& item : {norm->weight, plain->weight}) item.copy_(torch::tensor({1.5F, 0.5F}));
    for (auto& item : {norm->bias, plain->bias}) item.copy_(torch::tensor({0.25F, -1.0F}));
  }
  int64_t begin = seat.rank == 0 ? 0 : 24, end = seat.rank == 0 ? 24 : kRows;
  torch::Tensor inputs = all.slice(0, begin, end).clone().requires_grad_();
  torch::Tensor outputs = norm(inputs);
  outputs.backward(slopes.slice(0, begin, end));
  torch::Tensor joined = all.to(torch::kFloat).requires_grad_();
  torch::Tensor expected = plain(joined);
  expected.backward(slopes.to(torch::kFloat));

  auto demand_near = [](const char* name, const torch::Tensor& got, const torch::Tensor& wanted,
                        double tolerance) {
    double difference = (got.detach().to(torch::kFloat) - wanted).abs().max().item<double>();
    double size = wanted.abs().max().item<double>();
    if (difference <= tolerance * size) return;  // not if it is NaN
    throw std::runtime_error(manta::str(name, " is\n", got, "\nnot\n", wanted));
  };
  if (outputs.scalar_type() != type) throw std::runtime_error("the type of the outputs");
  double digits = type == torch::kHalf ? 0.001 : 0.01;
  demand_near("running_mean", norm->running_mean, plain->running_mean, 1e-5);
  for (int64_t i : {0, 1}) {
    demand_near("running_var", norm->running_var[i], plain->running_var[i], 1e-5);
    demand_near("outputs", outputs.select(1, i),
                expected.detach().select(1, i).slice(0, begin, end), digits);
    demand_near("gradients", inputs.grad().select(1, i),
                joined.grad().select(1, i).slice(0, begin, end), digits);
  }
  std::vector<torch::Tensor> sums = {torch::stack({norm->weight.grad(), norm->bias.grad()})};
  group->allreduce(sums)->wait();
  demand_near("slope of the weight", sums[0][0], plain->weight.grad(), 1e-4);
  demand_near("slope of the bias", sums[0][1], plain->bias.grad(), 1e-4);
}

TEST(SyncBatchNormTest, HalfPrecisionHasStatisticsInFloat) {
  for (torch::ScalarType type : {torch::kBFloat16, torch::kHalf}) {
    RankProcesses ranks(2, [&](const Seat& seat) { normalize_half(seat, type); });
    for (int rank : {0, 1}) EXPECT_EQ(ranks.outcome(rank), "") << c10::toString(type) << rank;
  }
}

TEST(SyncBatchNormTest, AloneItIsBatchNorm) {
  for (bool track : {true, false}) {
    torch::nn::BatchNorm2d plain(torch::nn::BatchNormOptions(3).track_running_stats(track));
    SyncBatchNorm sync(3, SyncBatchNormOptions{.track_running_stats = track});
    torch::manual_seed(1);
    for (int step = 0; step < 3; ++step) {
      if (step == 2) {
        plain->eval();
        sync->eval();
      }
      torch::Tensor a = (torch::randn({4, 3, 2, 2}) * 2 + 1).requires_grad_();
      torch::Tensor b = a.detach().clone().requires_grad_();
      torch::Tensor one = plain(a), two = sync(b);
      EXPECT_TRUE(torch::allclose(one, two, 1e-5, 1e-6));
      one.square().sum().backward();
      two.square().sum().backward();
      EXPECT_TRUE(torch::allclose(a.grad(), b.grad(), 1e-3, 1e-4));
    }
    if (track) {
      EXPECT_TRUE(torch::allclose(plain->running_var, sync->running_var));
      sync->reset_running_stats();
      EXPECT_TRUE(torch::equal(sync->running_var, torch::ones({3})));
    }
    EXPECT_EQ(plain->named_parameters().keys(), sync->named_parameters().keys());
    EXPECT_EQ(plain->named_buffers().keys(), sync->named_buffers().keys());
  }
}

TEST(SyncBatchNormTest, BadInputsAreSaid) {
  SyncBatchNorm norm(3);
  EXPECT_THAT(message_of([&] {
                norm(torch::ones({4, 2}));
              }),
              HasSubstr("the input is of shape [4, 2], expected [rows, 3, ...]"));
  EXPECT_THAT(message_of([&] { norm(torch::ones({1, 3})); }), HasSubstr("needs at least 2"));
  EXPECT_THAT(message_of([] { SyncBatchNorm(0); }), HasSubstr("must be positive (was 0)"));
}

}  // namespace
}  // namespace manta::train
