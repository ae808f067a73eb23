// Each rank is a separate process. It throws what it finds wrong, so that the test shows it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>
#include <unistd.h>

#include "manta/base/error_internal.h"
#include "manta/torch/allocated_bytes_internal.h"
#include "manta/torch/autocast.h"
#include "manta/torch/data_parallel.h"
#include "manta/torch/grad_scaler.h"
#include "manta/torch/rank_processes_internal.h"
#include "manta/torch/shard_registry_internal.h"

namespace manta::train {
namespace {

using testing::HasSubstr;

/// Embedding, normalisation, tied weights, a parameter that is used directly, one that is frozen,
/// one that is not used, and one that is smaller than the number of workers.
struct ShardedNetImpl : torch::nn::Module {
  ShardedNetImpl()
      : embedding(register_module("embedding", torch::nn::Embedding(11, 6))),
        first(register_module("first", torch::nn::Linear(6, 7))),
        norm(register_module("norm", torch::nn::BatchNorm1d(7))),
        tied(register_module("tied", torch::nn::Linear(7, 7))),
        last(register_module("last", torch::nn::Linear(7, 1))),
        unused(register_module("unused", torch::nn::Linear(3, 3))),
        scale(register_parameter("scale", torch::ones({1}))),
        frozen(register_parameter("frozen", torch::full({5}, 2.0), false)),
        crooked(register_parameter("crooked", torch::rand({7, 3}).t())) {}
  torch::Tensor forward(const torch::Tensor& ids) {
    torch::Tensor hidden = torch::tanh(norm(first(embedding(ids))));
    hidden = torch::tanh(tied(hidden)) + torch::tanh(tied(hidden * 2)) + crooked.sum(0);
    return last(hidden) * scale * frozen.mean();
  }
  torch::nn::Embedding embedding;
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear tied, last, unused;
  torch::Tensor scale, frozen, crooked;
};
TORCH_MODULE(ShardedNet);

ShardedNet sharded_net(int seed) {
  torch::manual_seed(seed);
  ShardedNet net;
  net->to(torch::kDouble);
  return net;
}

torch::Tensor ids_of(int step, int rank) {
  torch::manual_seed(100 + 10 * step + rank);
  return torch::randint(0, 11, {6});
}

void demand(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

/// The whole of a parameter, by an operation that makes the workers gather it.
torch::Tensor whole(const torch::Tensor& parameter) {
  torch::NoGradGuard no_grad;
  return parameter.clone();
}

void demand_same_weights(ShardedNet& split, ShardedNet& copied, double tolerance) {
  auto expected = copied->named_parameters();
  for (const auto& item : split->named_parameters()) {
    torch::Tensor got = whole(item.value());
    if (!torch::allclose(got, expected[item.key()], tolerance, tolerance)) {
      throw std::runtime_error(
          manta::str(item.key(), " is\n", got, "\nnot\n", expected[item.key()]));
    }
  }
}

struct ShardedRun {
  int size = 2;
  bool adam = true;
  bool accumulate = false;
  bool clip = false;
  bool freeze = false;  // freezes and unfreezes parts of the prepared model
};

/// Through parameters() and through the module.
template <class Model>
void freeze_some(Model& model, int step) {
  auto parameters = model->named_parameters();
  if (step == 5) {
    parameters["first.weight"].requires_grad_(false);
    model->module()->last->bias.requires_grad_(false);
  } else if (step == 10) {
    model->module()->first->weight.requires_grad_(true);
    parameters["last.bias"].requires_grad_(true);
  } else if (step == 15) {
    parameters["tied.weight"].requires_grad_(false);
  }
  if (step % 5 == 0) model->zero_grad();
}

/// 20 steps of the same model, once split and once copied: the same weights.
void train_both(const Seat& seat, BackendKind kind, const ShardedRun& run) {
  auto group = make_process_group({}, join(kind, seat), seat.rank, seat.size);
  SyncOptions options = {.group = group, .rank = seat.rank, .world_size = seat.size};
  // Rows count differently on each rank.
  options.weight = [&] { return 2.0 * (seat.rank + 1) / (seat.size + 1); };
  ShardedNet copied = sharded_net(1), split = sharded_net(1 + seat.rank);
  auto copies = prepare_model(copied, options);
  options.model.sharded = true;
  auto shards = prepare_model(split, options);
  int64_t numbers = 0;
  for (const auto& item : shards->named_parameters()) {
    auto info = detail::find_shard(item.value());
    demand(info && info->range.size() == item.value().numel(), item.key() + " is no share");
    numbers += item.value().numel();
  }
  demand(numbers < 200, "a share is less than the whole");

  auto make =
      [&](std::vector<torch::Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
    if (run.adam) {
      return std::make_unique<torch::optim::AdamW>(
          std::move(parameters), torch::optim::AdamWOptions(1e-2).weight_decay(0.1));
    }
    return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                               torch::optim::SGDOptions(1e-2).momentum(0.9));
  };
  auto one = make(copies->parameters()), two = make(shards->parameters());
  auto train = [&](auto& model, torch::optim::Optimizer& optimizer) {
    std::vector<double> norms;
    for (int step = 0; step < 20; ++step) {
      if (run.freeze) freeze_some(model, step);
      auto backward = [&](int part) {
        model->forward(ids_of(2 * step + part, seat.rank)).square().mean().backward();
      };
      optimizer.zero_grad(step % 2 == 0);
      if (run.accumulate) {
        auto guard = model->no_sync();
        backward(0);
      }
      backward(1);
      if (run.clip) norms.push_back(model->clip_grad_norm_(0.5, step % 3 == 0 ? INFINITY : 2));
      optimizer.step();
      model->eval();
      torch::NoGradGuard no_grad;
      model->forward(ids_of(step, 0));
      model->train();
    }
    return norms;
  };
  auto expected = train(copies, *one), got = train(shards, *two);
  for (size_t i = 0; i < got.size(); ++i) {
    demand(std::abs(got[i] - expected[i]) < 1e-6 * (1 + expected[i]),
           manta::str("the norm is ", got[i], ", not ", expected[i]));
  }
  demand_same_weights(split, copied, 1e-6);
  demand(torch::allclose(split->norm->running_mean, copied->norm->running_mean), "the buffers");
  demand(!shards->named_parameters()["unused.weight"].grad().defined(), "what nobody used");
  if (run.freeze) demand(!shards->named_parameters()["tied.weight"].grad().defined(), "frozen");
}

void expect_same(const ShardedRun& run) {
  for (BackendKind kind : {BackendKind::kShm, BackendKind::kGloo}) {
    SCOPED_TRACE(kind == BackendKind::kShm ? "shm" : "gloo");
    RankProcesses ranks(run.size, [&](const Seat& seat) { train_both(seat, kind, run); });
    for (int rank = 0; rank < run.size; ++rank) EXPECT_EQ(ranks.outcome(rank), "") << rank;
  }
}

TEST(Sharded, TrainsLikeCopies) { expect_same({}); }
TEST(Sharded, ThreeTrainLikeCopies) { expect_same({.size = 3, .adam = false, .clip = true}); }
TEST(Sharded, AccumulatesLikeCopies) { expect_same({.accumulate = true, .clip = true}); }
TEST(Sharded, FreezesLikeCopies) { expect_same({.adam = false, .freeze = true}); }

/// An infinity counts for all workers, though only one has it in its share.
TEST(Sharded, TheScalerDecidesTheSameEverywhere) {
  RankProcesses ranks(2, [](const Seat& seat) {
    auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
    torch::manual_seed(1);
    auto model = prepare_model(
        torch::nn::Linear(4, 1),
        {.group = group, .rank = seat.rank, .world_size = 2, .model = {.sharded = true}});
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    GradScaler scaler({.init_scale = 4});
    for (int step = 0; step < 2; ++step) {
      // Only the first input, whose weight is rank 0's, is infinite in the first step.
      torch::Tensor inputs = torch::ones({1, 4});
      if (step == 0) inputs[0][0] = INFINITY;
      scaler.scale(model->forward(inputs).sum()).backward();
      demand(scaler.step(optimizer) == (step == 1), "the step");
      scaler.update();
      demand(scaler.get_scale() == 2, "the scale");
      optimizer.zero_grad();
    }
  });
  EXPECT_EQ(ranks.outcome(0), "");
  EXPECT_EQ(ranks.outcome(1), "");
}

TEST(Sharded, ErrorsOfTheGroupReachTheCallerOfForward) {
  RankProcesses ranks(2, [&](const Seat& seat) {
    auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
    auto model = prepare_model(
        sharded_net(1),
        {.group = group, .rank = seat.rank, .world_size = 2, .model = {.sharded = true}});
    if (seat.rank == 1) return;
    model->forward(ids_of(0, 0));
  });
  EXPECT_EQ(ranks.outcome(1), "");
  EXPECT_THAT(ranks.outcome(0), testing::AllOf(HasSubstr("worker lost: "), HasSubstr("rank 1")));
}

/// The peak of making and training a model of 16 equal layers, 4 MiB, with Adam. With `mixed`,
/// autocast converts 2 MiB of weights in each forward.
int64_t peak_of_training(const SyncOptions& options, bool mixed) {
  auto bytes = std::make_shared<AllocatedBytes>();
  c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
  torch::nn::Sequential layers;
  for (int i = 0; i < 16; ++i) layers->push_back(torch::nn::Linear(256, 256));
  auto model = prepare_model(layers, options);
  torch::optim::Adam optimizer(model->parameters(), 1e-3);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    torch::Tensor loss;
    {
      Autocast autocast({.enabled = mixed});
      loss = model->forward(torch::ones({2, 256})).to(torch::kFloat).square().mean();
    }
    loss.backward();
    optimizer.step();
  }
  return bytes->peak;
}

/// One process: weights, gradients and Adam's two tensors, 4 times 4 MiB. Split: that divided by
/// the workers, plus one or two gathered layers (0.25 MiB each), and never less than the model when
/// it was made. Mixed precision adds a layer of bfloat16 (0.125 MiB).
void expect_less_memory(bool mixed) {
  for (int size : {2, 4}) {
    RankProcesses ranks(size, [&](const Seat& seat) {
      auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
      int64_t alone = peak_of_training({}, false);
      int64_t split = peak_of_training(
          {.group = group, .rank = seat.rank, .world_size = seat.size, .model = {.sharded = true}},
          mixed);
      demand(alone > (int64_t{16} << 20), manta::str("alone it takes ", alone));
      double share = static_cast<double>(split) / static_cast<double>(alone);
      demand(share < (seat.size == 2 ? 0.66 : 0.42),
             manta::str("one of ", seat.size, " takes ", split, " bytes, alone it is ", alone));
    });
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(ranks.outcome(rank), "") << size << rank;
  }
}

TEST(Sharded, PeakMemoryFallsWithTheNumberOfWorkers) { expect_less_memory(false); }
TEST(Sharded, PeakMemoryFallsWithMixedPrecisionToo) { expect_less_memory(true); }

/// Between forward and backward nothing of the weights is left but the shares.
TEST(Sharded, NoCopyOfTheWeightsIsKeptForBackward) {
  RankProcesses ranks(2, [](const Seat& seat) {
    auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
    auto bytes = std::make_shared<AllocatedBytes>();
    c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
    torch::nn::Sequential layers;
    for (int i = 0; i < 4; ++i) layers->push_back(torch::nn::Linear(256, 256));
    auto model = prepare_model(
        layers, {.group = group, .rank = seat.rank, .world_size = 2, .model = {.sharded = true}});
    int64_t shares = bytes->now;
    for (bool cache : {true, false}) {
      Autocast autocast({.cache = cache});
      for (int step = 0; step < 2; ++step) {
        torch::Tensor loss = model->forward(torch::ones({2, 256})).sum();
        demand(bytes->now - shares < 64'000, manta::str("forward leaves ", bytes->now - shares));
        if (step == 0) continue;  // no backward: no copy remains, either
        loss.backward();
        model->zero_grad();
        demand(bytes->now - shares < 64'000, manta::str("backward leaves ", bytes->now - shares));
      }
    }
  });
  EXPECT_EQ(ranks.outcome(0), "");
  EXPECT_EQ(ranks.outcome(1), "");
}

/// Converting twice gives the same: split and copied models take the same steps.
TEST(Sharded, MixedPrecisionTrainsLikeCopies) {
  for (BackendKind kind : {BackendKind::kShm, BackendKind::kGloo}) {
    RankProcesses ranks(2, [kind](const Seat& seat) {
      auto group = make_process_group({}, join(kind, seat), seat.rank, seat.size);
      SyncOptions options = {.group = group, .rank = seat.rank, .world_size = 2};
      auto make = [] {
        torch::manual_seed(1);
        return torch::nn::Sequential(torch::nn::Conv1d(2, 4, 3), torch::nn::Flatten(),
                                     torch::nn::Linear(16, 5), torch::nn::Tanh(),
                                     torch::nn::Linear(5, 1));
      };
      torch::nn::Sequential copied = make(), split = make();
      auto copies = prepare_model(copied, options);
      options.model.sharded = true;
      auto shards = prepare_model(split, options);
      auto train = [&](auto& model) {
        torch::optim::SGD optimizer(model->parameters(), 0.05);
        for (int step = 0; step < 6; ++step) {
          torch::manual_seed(10 * step + seat.rank);
          torch::Tensor inputs = torch::randn({3, 2, 6}), loss;
          optimizer.zero_grad();
          {
            Autocast autocast({.cache = step % 2 == 0});
            // Uses the same weights twice, in one backward.
            loss = (model->forward(inputs) + model->forward(inputs * 2)).to(torch::kFloat).sum();
          }
          loss.backward();
          optimizer.step();
        }
      };
      train(copies);
      train(shards);
      auto expected = copied->named_parameters();
      for (const auto& item : split->named_parameters()) {
        demand(torch::allclose(whole(item.value()), expected[item.key()], 1e-5, 1e-6), item.key());
      }
    });
    EXPECT_EQ(ranks.outcome(0), "");
    EXPECT_EQ(ranks.outcome(1), "");
  }
}

/// This includes one that evaluates the model once a step. The error comes before it has changed
/// anything.
TEST(Sharded, AnOptimizerThatNeedsWholeGradientsIsRefused) {
  for (int evaluations : {1, 20}) {
    RankProcesses ranks(2, [evaluations](const Seat& seat) {
      auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
      auto model = prepare_model(
          torch::nn::Linear(4, 1),
          {.group = group, .rank = seat.rank, .world_size = 2, .model = {.sharded = true}});
      auto shares = [&] {
        std::vector<torch::Tensor> copies;
        for (const auto& share : model->parameters()) copies.push_back(share.detach().clone());
        return copies;
      };
      auto before = shares();
      auto how = torch::optim::LBFGSOptions(1).max_iter(evaluations);
      torch::optim::LBFGS optimizer(model->parameters(), how);
      auto closure = [&] {
        optimizer.zero_grad();
        torch::Tensor loss = (model->forward(torch::ones({1, 4})) - 3).square().sum();
        loss.backward();
        return loss;
      };
      std::string refused;
      try {
        optimizer.step(closure);
      } catch (const std::exception& error) {
        refused = error.what();
      }
      demand(refused.find("as LBFGS does") != std::string::npos, refused);
      auto after = shares();
      for (size_t i = 0; i < before.size(); ++i)
        demand(torch::equal(before[i], after[i]), manta::str("share ", i, " has changed"));
      model->forward(torch::ones({1, 4}));
    });
    for (int rank : {0, 1}) {
      EXPECT_THAT(ranks.outcome(rank),
                  testing::AllOf(HasSubstr("invalid argument"), HasSubstr("as LBFGS does"),
                                 HasSubstr("use an optimizer that treats every number by itself")));
    }
  }
}

/// Its converted weights are those from before the step.
TEST(Sharded, AStepBetweenForwardAndBackwardIsSaid) {
  RankProcesses ranks(2, [](const Seat& seat) {
    auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
    auto model = prepare_model(
        torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::Linear(4, 1)),
        {.group = group, .rank = seat.rank, .world_size = 2, .model = {.sharded = true}});
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    auto loss = [&] {
      Autocast autocast;
      return model->forward(torch::ones({1, 4})).to(torch::kFloat).sum();
    };
    torch::Tensor late = loss();
    loss().backward();
    optimizer.step();
    late.backward();
  });
  for (int rank : {0, 1}) {
    EXPECT_THAT(ranks.outcome(rank), HasSubstr("has changed since it was converted to BFloat16"));
  }
}

/// One rank fails alone, and then does something else.
TEST(Sharded, ARankThatCannotGatherDoesNotLeaveTheOthersWaiting) {
  for (BackendKind kind : {BackendKind::kShm, BackendKind::kGloo, BackendKind::kHosts}) {
    RankProcesses ranks(2, [kind](const Seat& seat) {
      auto group = make_process_group({}, join(kind, seat), seat.rank, seat.size);
      auto model = prepare_model(
          torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::Linear(4, 1)),
          {.group = group, .rank = seat.rank, .world_size = 2, .model = {.sharded = true}});
      torch::optim::SGD optimizer(model->parameters(), 0.1);
      auto loss = [&] {
        Autocast autocast;
        return model->forward(torch::ones({1, 4})).to(torch::kFloat).sum();
      };
      torch::Tensor late = loss();
      loss().backward();
      if (seat.rank == 1) optimizer.step();
      try {
        late.backward();
      } catch (const Error&) {
        if (seat.rank == 0) throw;
        ::pause();  // until the test ends
      }
    });
    EXPECT_THAT(ranks.outcome(0), testing::StartsWith("worker lost: "));
    if (kind == BackendKind::kShm) {
      EXPECT_THAT(ranks.outcome(0), testing::AllOf(HasSubstr("rank 1 could not gather parameter"),
                                                   HasSubstr("has changed since it was")));
    }
  }
}

TEST(Sharded, WhatCannotBeIsSaid) {
  RankProcesses ranks(2, [&](const Seat& seat) {
    auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
    SyncOptions options = {
        .group = group, .rank = seat.rank, .world_size = 2, .model = {.sharded = true}};
    ShardedNet net = sharded_net(1);
    auto model = prepare_model(net, options);
    auto message = [](const auto& call) -> std::string {
      try {
        call();
      } catch (const Error& error) {
        return error.what();
      }
      return "nothing was thrown";
    };
    std::string moved = message([&] { model->to(torch::kFloat); });
    demand(moved.find("call to() before") != std::string::npos, moved);
    std::string twice = message([&] { prepare_model(net, options); });
    demand(twice.find("'scale' already belongs") != std::string::npos, twice);
  });
  EXPECT_EQ(ranks.outcome(0), "");
  EXPECT_EQ(ranks.outcome(1), "");
}

}  // namespace
}  // namespace manta::train
