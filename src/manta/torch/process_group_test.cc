// c10d's own Reducer over each backend.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/nn.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "manta/base/error_internal.h"
#include "manta/torch/rank_processes_internal.h"

namespace manta::train {
namespace {

using testing::HasSubstr;

c10::intrusive_ptr<c10d::ProcessGroup> join_group(BackendKind kind, const Seat& seat) {
  return make_process_group(nullptr, join(kind, seat), seat.rank, seat.size);
}

/// Two layers; parameters are the same everywhere, one bucket each.
struct Model {
  torch::nn::Linear first{4, 300};
  torch::nn::Linear second{300, 1};

  std::vector<at::Tensor> parameters() const {
    auto all = first->parameters();
    for (auto& parameter : second->parameters()) all.push_back(parameter);
    return all;
  }
  at::Tensor forward(const at::Tensor& x) { return second(at::relu(first(x))); }
};

at::Tensor batch_of(int rank) {
  torch::manual_seed(100 + rank);
  return torch::rand({8, 4});
}

std::unique_ptr<c10d::Reducer> make_reducer(Model& model,
                                            c10::intrusive_ptr<c10d::ProcessGroup> group) {
  auto parameters = model.parameters();
  std::vector<std::vector<size_t>> buckets;
  for (size_t i = parameters.size(); i-- > 0;) buckets.push_back({i});
  return std::make_unique<c10d::Reducer>(parameters, buckets, std::move(group),
                                         std::vector<bool>(parameters.size(), false), 1 << 20,
                                         false, false, std::unordered_map<size_t, std::string>{},
                                         1 << 20, false, false, std::vector<int64_t>{});
}

class ProcessGroupTest : public testing::TestWithParam<BackendKind> {};

TEST_P(ProcessGroupTest, ReducerAveragesGradients) {
  RankProcesses processes(2, [&](const Seat& seat) {
    auto group = join_group(GetParam(), seat);
    torch::manual_seed(1);
    Model model;
    auto reducer = make_reducer(model, group);
    for (int step = 0; step < 3; ++step) {
      std::vector<at::Tensor> expected;
      Model alone = model;
      alone.first =
          torch::nn::Linear(std::dynamic_pointer_cast<torch::nn::LinearImpl>(model.first->clone()));
      alone.second = torch::nn::Linear(
          std::dynamic_pointer_cast<torch::nn::LinearImpl>(model.second->clone()));
      for (auto& parameter : alone.parameters()) parameter.mutable_grad() = at::Tensor();
      ((alone.forward(batch_of(0)).mean() + alone.forward(batch_of(1)).mean()) / 2).backward();

      for (auto& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
      reducer->prepare_for_forward();
      if (reducer->should_rebuild_buckets()) reducer->rebuild_buckets();
      auto loss = model.forward(batch_of(seat.rank)).mean();
      reducer->prepare_for_backward({loss});
      loss.backward();

      auto ours = model.parameters();
      auto theirs = alone.parameters();
      for (size_t i = 0; i < ours.size(); ++i) {
        if (!at::allclose(ours[i].grad(), theirs[i].grad(), 1e-5, 1e-6)) {
          throw std::runtime_error(str("step ", step, ": gradient ", i, " is not the average"));
        }
      }
      at::NoGradGuard no_grad;
      for (auto& parameter : model.parameters()) parameter -= 0.1 * parameter.grad();
    }
  });
  EXPECT_EQ(processes.outcome(0), "");
  EXPECT_EQ(processes.outcome(1), "");
}

TEST_P(ProcessGroupTest, CollectivesThroughTheGroup) {
  RankProcesses processes(2, [&](const Seat& seat) {
    auto group = join_group(GetParam(), seat);
    std::vector<at::Tensor> tensors{at::full(5, seat.rank + 1.0f)};
    auto work = group->allreduce(tensors);
    work->wait();
    auto value = work->getFuture()->value().toTensorVector().at(0);
    if (!at::equal(value, at::full(5, 3.0f))) throw std::runtime_error("allreduce");
    c10d::BroadcastOptions options;
    options.rootRank = 1;
    std::vector<at::Tensor> broadcast{at::full(2, seat.rank)};
    group->broadcast(broadcast, options)->wait();
    if (!at::equal(broadcast[0], at::full(2, 1))) throw std::runtime_error("broadcast");
    group->barrier()->wait();
  });
  EXPECT_EQ(processes.outcome(0), "");
  EXPECT_EQ(processes.outcome(1), "");
}

TEST_P(ProcessGroupTest, ALostPeerEndsBackward) {
  RankProcesses processes(2, [&](Seat seat) {
    seat.timeout = std::chrono::seconds(10);
    auto group = join_group(GetParam(), seat);
    torch::manual_seed(1);
    Model model;
    auto reducer = make_reducer(model, group);
    auto loss = model.forward(batch_of(seat.rank)).mean();
    reducer->prepare_for_backward({loss});
    if (seat.rank == 1) ::raise(SIGKILL);
    loss.backward();
  });
  EXPECT_EQ(processes.outcome(1), str("signal ", SIGKILL));
  EXPECT_NE(processes.outcome(0), "");
  if (GetParam() == BackendKind::kShm) {
    EXPECT_THAT(processes.outcome(0), HasSubstr("worker lost: the process of rank 1 ("));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ProcessGroupTest,
                         testing::Values(BackendKind::kShm, BackendKind::kGloo),
                         [](const auto& info) {
                           return info.param == BackendKind::kShm ? "Shm" : "Gloo";
                         });

}  // namespace
}  // namespace manta::train
