// Each rank is a separate process. It throws what it finds wrong, so that the test shows it.

#include "manta/torch/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>

#include <functional>
#include <map>
#include <string>

#include "manta/base/error_internal.h"
#include "manta/torch/rank_processes_internal.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kFlat = size_t{1} << 20;
constexpr size_t kBuckets = 0;  // every model exceeds this limit for a flat exchange

struct ParallelNetImpl : torch::nn::Module {
  explicit ParallelNetImpl(int64_t width = 16)
      : first(register_module("first", torch::nn::Linear(6, width))),
        second(register_module("second", torch::nn::Linear(width, 1))) {}
  torch::Tensor forward(const torch::Tensor& inputs) { return second(torch::tanh(first(inputs))); }
  torch::nn::Linear first, second;
};
TORCH_MODULE(ParallelNet);

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

void require_close(const torch::Tensor& got, const torch::Tensor& expected, double tolerance,
                   const std::string& what) {
  bool close = got.defined() && got.sizes() == expected.sizes() &&
               torch::allclose(got, expected, tolerance, tolerance);
  if (!close) throw std::runtime_error(manta::str(what, " is\n", got, "\nnot\n", expected));
}

/// Runs `body` on every rank over each backend, with small models exchanged at once and in buckets.
using Body = std::function<void(const Seat&, const SyncOptions&)>;
void on_ranks(int size, const Body& body) {
  for (BackendKind kind : {BackendKind::kShm, BackendKind::kGloo}) {
    for (size_t limit : {kFlat, kBuckets}) {
      SCOPED_TRACE(manta::str(kind == BackendKind::kShm ? "shm" : "gloo",
                              limit == kFlat ? ", flat" : ", buckets"));
      RankProcesses ranks(size, [&](const Seat& seat) {
        auto backend = join(kind, seat);
        auto group = make_process_group({}, backend, seat.rank, seat.size);
        body(seat, {.group = group,
                    .rank = seat.rank,
                    .world_size = seat.size,
                    .flat_limit_bytes = limit});
      });
      for (int rank = 0; rank < size; ++rank) EXPECT_EQ(ranks.outcome(rank), "") << rank;
    }
  }
}

struct Batch {
  torch::Tensor inputs, targets;
  Batch rows(int64_t begin, int64_t end) const {
    return {inputs.slice(0, begin, end), targets.slice(0, begin, end)};
  }
};
Batch batch_of(int step, int64_t rows, torch::ScalarType type) {
  torch::manual_seed(1000 + step);
  torch::Tensor inputs = torch::randn({rows, 6}, type);
  return {inputs, torch::sin(inputs.sum(1, true))};
}

template <class Model>
void backward(Model& model, const Batch& batch) {
  torch::mse_loss(model->forward(batch.inputs), batch.targets).backward();
}

ParallelNet seeded_net(int seed, torch::ScalarType type = torch::kFloat) {
  torch::manual_seed(seed);
  ParallelNet net;
  net->to(type);
  return net;
}

/// 200 steps of Adam on each rank's slice, against the same on whole batches in one process.
void train_like_one_process(const Seat& seat, SyncOptions options, bool uneven,
                            torch::ScalarType type) {
  constexpr int64_t kRows = 30;
  std::vector<int64_t> ends;
  int64_t parts = uneven ? seat.size * (seat.size + 1) / 2 : seat.size;
  int64_t part = 0;
  for (int rank = 0; rank < seat.size; ++rank) {
    part += uneven ? rank + 1 : 1;
    ends.push_back(kRows * part / parts);
  }
  int64_t begin = seat.rank == 0 ? 0 : ends[static_cast<size_t>(seat.rank) - 1];
  int64_t end = ends[static_cast<size_t>(seat.rank)];
  options.weight = [=] { return static_cast<double>((end - begin) * seat.size) / kRows; };

  ParallelNet alone = seeded_net(1, type);
  auto model = prepare_model(seeded_net(1 + seat.rank, type), options);
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  torch::optim::Adam optimizer_alone(alone->parameters(), 1e-2);
  for (int step = 0; step < 200; ++step) {
    Batch batch = batch_of(step, kRows, type);
    optimizer.zero_grad(step % 2 == 0);
    backward(model, batch.rows(begin, end));
    optimizer.step();
    optimizer_alone.zero_grad();
    backward(alone, batch);
    optimizer_alone.step();
  }
  for (const auto& item : alone->named_parameters()) {
    require_close(model->named_parameters()[item.key()], item.value(),
                  type == torch::kFloat ? 2e-3 : 1e-8, item.key());
  }
}

TEST(DataParallel, TwoWorkersTrainLikeOne) {
  on_ranks(2, [](const Seat& seat, const SyncOptions& options) {
    train_like_one_process(seat, options, false, torch::kFloat);
  });
}

TEST(DataParallel, UnevenSlicesTrainLikeOne) {
  on_ranks(2, [](const Seat& seat, const SyncOptions& options) {
    train_like_one_process(seat, options, true, torch::kDouble);
  });
}

TEST(DataParallel, FourUnevenWorkersTrainLikeOne) {
  on_ranks(4, [](const Seat& seat, const SyncOptions& options) {
    train_like_one_process(seat, options, true, torch::kDouble);
  });
}

TEST(DataParallel, OneWorkerNeedsNoGroup) {
  ParallelNet net;
  auto model = prepare_model(net, SyncOptions());
  EXPECT_EQ(model.sync(), nullptr);
  torch::Tensor inputs = torch::randn({3, 6});
  EXPECT_TRUE(torch::equal(model->forward(inputs), net->forward(inputs)));
  EXPECT_TRUE(torch::equal(model(inputs), net->forward(inputs)));
  auto guard = model.no_sync();
  model(inputs).sum().backward();
  EXPECT_TRUE(net->first->weight.grad().defined());
}

TEST(DataParallel, BehavesAsTheModule) {
  auto impl = std::make_shared<ParallelNetImpl>(4);
  auto model = prepare_model(impl, SyncOptions());
  EXPECT_EQ(&model.module(), impl.get());
  EXPECT_EQ(model->parameters().size(), 4u);
  EXPECT_TRUE(model->named_parameters().contains("first.weight"));
  EXPECT_TRUE(model->buffers().empty());
  model->eval();
  EXPECT_FALSE(impl->is_training());
  model->train();
  EXPECT_TRUE(model->is_training());
  model->to(torch::kDouble);
  EXPECT_EQ(impl->first->weight.scalar_type(), torch::kDouble);
  auto sequential = prepare_model(torch::nn::Sequential(torch::nn::Linear(2, 3)), SyncOptions());
  EXPECT_EQ(sequential->forward(torch::ones({1, 2})).size(1), 3);
}

TEST(DataParallel, NoSyncAccumulates) {
  on_ranks(2, [](const Seat& seat, const SyncOptions& options) {
    auto model = prepare_model(seeded_net(1), options);
    ParallelNet alone = seeded_net(1);
    Batch all = batch_of(0, 24, torch::kFloat);
    for (int round = 0; round < 2; ++round) {
      model->zero_grad();
      alone->zero_grad();
      // Each rank's 12 rows in three parts.
      int64_t begin = seat.rank * 12;
      {
        auto guard = model->no_sync();
        backward(model, all.rows(begin, begin + 4));
        torch::Tensor local = model.module()->first->weight.grad().clone();
        backward(model, all.rows(begin + 4, begin + 8));
        ParallelNet other = seeded_net(1);
        backward(other, all.rows(begin, begin + 4));
        require_close(local, other->first->weight.grad(), 1e-5, "the local gradient");
      }
      backward(model, all.rows(begin + 8, begin + 12));
      backward(alone, all);
      for (const auto& item : alone->named_parameters()) {
        require_close(model->named_parameters()[item.key()].grad() / 3, item.value().grad(), 1e-5,
                      item.key());
      }
    }
  });
}

TEST(DataParallel, NoSyncKeepsEachBackwardsWeight) {
  on_ranks(2, [](const Seat& seat, SyncOptions options) {
    // Two steps of 10 rows: 4 + 6 and 7 + 3.
    const int64_t split[2] = {4, 7};
    double weight = 1;
    options.weight = [&] { return weight; };
    auto model = prepare_model(seeded_net(1), options);
    ParallelNet alone = seeded_net(1);
    for (int step = 0; step < 2; ++step) {
      Batch all = batch_of(step, 10, torch::kFloat);
      Batch mine = seat.rank == 0 ? all.rows(0, split[step]) : all.rows(split[step], 10);
      weight = static_cast<double>(mine.inputs.size(0)) * 2 / 10;
      if (step == 0) {
        auto guard = model.no_sync();
        backward(model, mine);
      } else {
        backward(model, mine);
      }
      backward(alone, all);
    }
    require_close(model.module()->first->weight.grad(), alone->first->weight.grad(), 1e-5,
                  "the gradient");
  });
}

struct BranchesImpl : torch::nn::Module {
  BranchesImpl()
      : left(register_module("left", torch::nn::Linear(2, 1))),
        right(register_module("right", torch::nn::Linear(2, 1))),
        never(register_module("never", torch::nn::Linear(2, 1))),
        frozen(register_module("frozen", torch::nn::Linear(2, 2))) {
    for (auto& parameter : frozen->parameters()) parameter.requires_grad_(false);
  }
  torch::Tensor forward(const torch::Tensor& inputs, bool use_right) {
    torch::Tensor hidden = frozen(inputs);
    return use_right ? left(hidden) + right(hidden) : left(hidden);
  }
  torch::nn::Linear left, right, never, frozen;
};
TORCH_MODULE(Branches);

TEST(DataParallel, UnusedAndFrozenParameters) {
  on_ranks(2, [](const Seat& seat, const SyncOptions& options) {
    torch::manual_seed(seat.rank);
    auto model = prepare_model(Branches(), options);
    auto& module = *model.module();
    torch::Tensor inputs = torch::ones({1, 2});
    for (int step = 0; step < 3; ++step) {
      model->zero_grad();
      model->forward(inputs, seat.rank == 1).sum().backward();
      torch::Tensor hidden = module.frozen(inputs);
      require_close(module.left->weight.grad(), hidden, 1e-5, "left");
      require_close(module.right->weight.grad(), hidden / 2, 1e-5, "right");
      require(!module.never->weight.grad().defined(),
              "a parameter that nobody used has a gradient");
      require(!module.frozen->weight.grad().defined(), "a frozen parameter has a gradient");
    }
    module.frozen->weight.requires_grad_(true);
    try {
      model->forward(inputs, true).sum().backward();
      require(false, "unfreezing went unnoticed");
    } catch (const Error& error) {
      require(std::string(error.what()).find("'frozen.weight' was frozen") != std::string::npos,
              error.what());
    }
  });
}

/// Small models may leave out any parameters; larger ones are not searched for unused ones, and
/// throw an error that says so.
TEST(DataParallel, UnusedParametersOfAModelThatIsNotSearched) {
  on_ranks(2, [](const Seat&, SyncOptions options) {
    options.model.find_unused_parameters = false;
    auto model = prepare_model(Branches(), options);
    torch::Tensor inputs = torch::ones({1, 2});
    model->forward(inputs, true).sum().backward();  // `never` has no gradient
    std::string message = "nothing";
    try {
      model->forward(inputs, true);
    } catch (const Error& error) {
      require(error.kind() == ErrorKind::kInvalidArgument, "the kind");
      message = error.what();
    }
    bool is_flat = options.flat_limit_bytes == kFlat;
    require(is_flat
                ? message == "nothing"
                : message.find("find_unused_parameters of prepare_model true") != std::string::npos,
            message);
    options.group->barrier()->wait();  // a rank that leaves at once may end before the other is
                                       // done
  });
}

TEST(DataParallel, AModelThatIsNotSearchedTrainsLikeOne) {
  on_ranks(2, [](const Seat& seat, SyncOptions options) {
    options.model.find_unused_parameters = false;
    train_like_one_process(seat, options, true, torch::kDouble);
  });
}

struct NormImpl : torch::nn::Module {
  NormImpl() : norm(register_module("norm", torch::nn::BatchNorm1d(2))) {}
  torch::Tensor forward(const torch::Tensor& inputs) { return norm(inputs); }
  torch::nn::BatchNorm1d norm;
};
TORCH_MODULE(Norm);

TEST(DataParallel, BuffersAreRankZerosUnlessEachKeepsItsOwn) {
  for (bool broadcast : {true, false}) {
    on_ranks(2, [&](const Seat& seat, SyncOptions options) {
      options.model.broadcast_buffers = broadcast;
      Norm module;
      if (seat.rank == 1) module->norm->running_mean.fill_(7);  // models start with rank 0's values
      auto model = prepare_model(module, options);
      for (int step = 0; step < 3; ++step) {
        torch::Tensor inputs = torch::arange(8, torch::kFloat).view({4, 2}) + 10 * seat.rank;
        model->forward(inputs).square().sum().backward();
      }
      Norm alone;
      double shift = broadcast ? 0 : 10 * seat.rank;
      for (int step = 0; step < 3; ++step) {
        alone->forward(torch::arange(8, torch::kFloat).view({4, 2}) + shift);
      }
      require_close(module->norm->running_mean, alone->norm->running_mean, 1e-5, "mean");
      require_close(module->norm->running_var, alone->norm->running_var, 1e-5, "variance");
    });
  }
}

struct MixedImpl : torch::nn::Module {
  MixedImpl() {
    auto add = [&](const char* name, torch::ScalarType type) {
      register_parameter(name, torch::full({3}, 2, type));
    };
    add("float", torch::kFloat);
    add("double", torch::kDouble);
    add("half", torch::kHalf);
    add("brain", torch::kBFloat16);
    register_parameter("matrix", torch::ones({2, 3}).t());
    register_buffer("count", torch::zeros({}, torch::kInt64));
    register_buffer("big", torch::zeros({3}, torch::kInt16));
    register_buffer("flag", torch::zeros({3}, torch::kBool));
    register_buffer("wide", torch::zeros({2, 2}, torch::kDouble).t());
    register_buffer("narrow", torch::zeros({3}, torch::kInt8));
    register_buffer("none", torch::zeros({0}));
    register_buffer("real", torch::zeros({2, 3}).t());
  }
  torch::Tensor forward(double factor) {
    torch::Tensor sum = torch::zeros({}, torch::kDouble);
    for (auto& parameter : parameters()) sum = sum + factor * parameter.to(torch::kDouble).sum();
    return sum;
  }
  void set_buffers(int rank) {
    auto named = named_buffers();
    named["count"].fill_(rank == 0 ? (int64_t{1} << 60) + 12345 : -1);
    named["big"].fill_(rank == 0 ? -12345 : 1);
    named["flag"].fill_(rank == 0);
    named["wide"].copy_(torch::arange(4, torch::kDouble).view({2, 2}) / 3 + rank);
    named["narrow"].fill_(rank == 0 ? -3 : 4);
    named["real"].copy_(torch::arange(6, torch::kFloat).view({3, 2}) / 3 + rank);
  }
};
TORCH_MODULE(Mixed);

TEST(DataParallel, SeveralTypes) {
  on_ranks(2, [](const Seat& seat, const SyncOptions& options) {
    auto model = prepare_model(Mixed(), options);
    for (int step = 1; step < 4; ++step) {
      Mixed expected;
      expected->set_buffers(0);
      model->zero_grad();
      torch::Tensor loss = model->forward(seat.rank == 0 ? 1.0 : step);
      model.module()->set_buffers(seat.rank);
      loss.backward();
      for (const auto& item : model->named_parameters()) {
        torch::Tensor mean = torch::full_like(item.value(), (1.0 + step) / 2);
        require_close(item.value().grad(), mean.detach(), 1e-6, item.key());
      }
      for (const auto& item : model->named_buffers()) {
        require(torch::equal(item.value(), expected->named_buffers()[item.key()]), item.key());
      }
    }
  });
}

TEST(DataParallel, ChangesItsType) {
  on_ranks(2, [](const Seat& seat, const SyncOptions& options) {
    auto model = prepare_model(seeded_net(1), options);
    model->to(torch::kDouble);
    ParallelNet alone = seeded_net(1, torch::kDouble);
    Batch all = batch_of(0, 8, torch::kDouble);
    backward(model, all.rows(seat.rank * 4, seat.rank * 4 + 4));
    backward(alone, all);
    require_close(model.module()->first->weight.grad(), alone->first->weight.grad(), 1e-9, "grad");
  });
}

TEST(DataParallel, SeveralBackwards) {
  on_ranks(2, [](const Seat& seat, const SyncOptions& options) {
    auto model = prepare_model(seeded_net(1), options);
    ParallelNet alone = seeded_net(1);
    for (int step = 0; step < 3; ++step) {
      Batch all = batch_of(step, 8, torch::kFloat);
      Batch mine = all.rows(seat.rank * 4, seat.rank * 4 + 4);
      model->zero_grad(step != 1);
      torch::Tensor output = model(mine.inputs);
      output.mean().backward({}, /*retain_graph=*/true);
      torch::mse_loss(output, mine.targets).backward({}, /*retain_graph=*/true);
      if (step == 2) torch::mse_loss(output, mine.targets).backward();
      alone->zero_grad();
      torch::Tensor expected = alone(all.inputs);
      (expected.mean() + (step == 2 ? 2 : 1) * torch::mse_loss(expected, all.targets)).backward();
      for (const auto& item : alone->named_parameters()) {
        require_close(model->named_parameters()[item.key()].grad(), item.value().grad(), 1e-5,
                      item.key());
      }
    }
  });
}

/// Two forwards and then a backward for each, as in adversarial training; some parameters belong to
/// no backward, others only to one worker's.
TEST(DataParallel, ABackwardForEachOfTwoForwards) {
  on_ranks(2, [](const Seat& seat, const SyncOptions& options) {
    torch::manual_seed(1);
    auto model = prepare_model(Branches(), options);
    auto& module = *model.module();
    for (int step = 0; step < 2; ++step) {
      model->zero_grad();
      torch::Tensor one = torch::ones({1, 2}), two = torch::full({1, 2}, 2.0);
      torch::Tensor first = model->forward(one, false);
      torch::Tensor second = model->forward(two * (seat.rank + 1), false);
      first.sum().backward();
      second.sum().backward();
      torch::Tensor expected = module.frozen(one) + module.frozen(two * 1.5);
      require_close(module.left->weight.grad(), expected, 1e-5, "left");
      // A backward that includes the branch on only one worker.
      torch::Tensor output = model->forward(one, seat.rank == 1);
      output.sum().backward({}, /*retain_graph=*/true);
      output.sum().backward();
      require_close(module.right->weight.grad(), module.frozen(one), 1e-5, "right");
      require(!module.never->weight.grad().defined(), "nobody used it");
    }
  });
}

TEST(DataParallel, LargeModelsUseBuckets) {
  RankProcesses ranks(2, [](const Seat& seat) {
    auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
    SyncOptions options = {.group = group, .rank = seat.rank, .world_size = seat.size};
    auto small = prepare_model(ParallelNet(16), options);
    auto large = prepare_model(ParallelNet(100'000), options);
    auto is_flat = [](const auto& model) {
      return dynamic_cast<detail::GradientSync&>(*model.sync()).is_flat();
    };
    require(is_flat(small) && !is_flat(large), "the paths");
    Batch all = batch_of(0, 8, torch::kFloat);
    ParallelNet alone(100'000);
    {
      torch::NoGradGuard no_grad;
      for (auto& item : alone->named_parameters()) {
        item.value().copy_(large->named_parameters()[item.key()]);
      }
    }
    for (int step = 0; step < 3; ++step) {
      large->zero_grad(step != 1);
      alone->zero_grad();
      backward(large, all.rows(seat.rank * 4, seat.rank * 4 + 4));
      backward(alone, all);
      require_close(large.module()->second->weight.grad(), alone->second->weight.grad(), 1e-4,
                    "grad");
      torch::NoGradGuard no_grad;
      large->forward(all.inputs);
    }
  });
  EXPECT_EQ(ranks.outcome(0), "");
  EXPECT_EQ(ranks.outcome(1), "");
}

std::string mismatch(const std::function<std::shared_ptr<torch::nn::Module>(int rank)>& make) {
  RankProcesses ranks(3, [&](const Seat& seat) {
    auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
    detail::GradientSync sync(*make(seat.rank),
                              {.group = group, .rank = seat.rank, .world_size = 3});
  });
  EXPECT_EQ(ranks.outcome(0), ranks.outcome(1));
  EXPECT_EQ(ranks.outcome(0), ranks.outcome(2));
  return ranks.outcome(0);
}

TEST(DataParallel, DifferentModelsAreAnError) {
  EXPECT_THAT(mismatch([](int rank) { return ParallelNet(rank == 1 ? 8 : 16).ptr(); }),
              AllOf(HasSubstr("the model on rank 1 differs"), HasSubstr("'first.weight'"),
                    HasSubstr("[8, 6]"), HasSubstr("[16, 6]")));
  EXPECT_THAT(mismatch([](int rank) -> std::shared_ptr<torch::nn::Module> {
                if (rank == 2) return std::make_shared<BranchesImpl>();
                return std::make_shared<ParallelNetImpl>();
              }),
              AllOf(HasSubstr("the model on rank 2 differs"), HasSubstr("'left.weight'")));
  EXPECT_THAT(mismatch([](int rank) {
                return seeded_net(1, rank == 2 ? torch::kDouble : torch::kFloat).ptr();
              }),
              AllOf(HasSubstr("rank 2"), HasSubstr("double")));
  EXPECT_THAT(
      mismatch([](int rank) {
        auto net = seeded_net(1);
        if (rank == 2) net->second->register_parameter("more", torch::ones({1}));
        return net.ptr();
      }),
      AllOf(HasSubstr("rank 2"), HasSubstr("'second.more'"), HasSubstr("rank 0 has no more")));
}

TEST(DataParallel, AModelIsPreparedOnce) {
  RankProcesses ranks(2, [](const Seat& seat) {
    auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
    SyncOptions options = {.group = group, .rank = seat.rank, .world_size = seat.size};
    ParallelNet net;
    { auto first = prepare_model(net, options); }
    auto model = prepare_model(net, options);
    prepare_model(net, options);
  });
  EXPECT_THAT(ranks.outcome(0), HasSubstr("'first.weight' already belongs to a data-parallel"));
  EXPECT_THAT(ranks.outcome(1), HasSubstr("'first.weight' already belongs to a data-parallel"));
}

/// A rank that leaves makes backward throw the group's own error.
TEST(DataParallel, ErrorsOfTheGroupReachTheCallerOfBackward) {
  for (size_t limit : {kFlat, kBuckets}) {
    RankProcesses ranks(2, [&](const Seat& seat) {
      auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
      auto model = prepare_model(
          ParallelNet(),
          {.group = group, .rank = seat.rank, .world_size = seat.size, .flat_limit_bytes = limit});
      if (seat.rank == 1) return;
      Batch batch = batch_of(0, 4, torch::kFloat);
      backward(model, batch);
    });
    EXPECT_EQ(ranks.outcome(1), "");
    EXPECT_THAT(ranks.outcome(0), HasSubstr("worker lost: "));
    EXPECT_THAT(ranks.outcome(0), HasSubstr("rank 1"));
  }
}

struct Opaque {
  torch::Tensor tensor;
};
struct OpaqueNetImpl : ParallelNetImpl {
  Opaque forward(const torch::Tensor& inputs) { return {ParallelNetImpl::forward(inputs)}; }
};
TORCH_MODULE(OpaqueNet);

TEST(DataParallel, OpaqueOutputsCannotBeWeighted) {
  RankProcesses ranks(2, [](const Seat& seat) {
    auto group = make_process_group({}, join(BackendKind::kShm, seat), seat.rank, seat.size);
    double weight = 1;
    auto model = prepare_model(
        OpaqueNet(),
        {.group = group, .rank = seat.rank, .world_size = 2, .weight = [&] { return weight; }});
    model->forward(torch::ones({1, 6})).tensor.sum().backward();
    weight = 0.5;
    model->forward(torch::ones({1, 6}));
  });
  EXPECT_THAT(ranks.outcome(0), AllOf(HasSubstr("Opaque"), HasSubstr("weight 0.5")));
}

TEST(OutputTensors, AreFoundInContainers) {
  using Output = std::tuple<torch::Tensor, std::vector<torch::Tensor>,
                            std::pair<std::optional<torch::Tensor>, std::map<int, torch::Tensor>>>;
  static_assert(detail::has_output_tensors<Output>);
  static_assert(!detail::has_output_tensors<std::vector<Opaque>>);
  static_assert(!detail::has_output_tensors<std::tuple<torch::Tensor, Opaque>>);
  Output output = {torch::ones({}),
                   {torch::ones({}), torch::Tensor()},
                   {torch::ones({}), {{1, torch::ones({})}}}};
  int count = 0;
  detail::for_each_tensor(output, [&](torch::Tensor&) { ++count; });
  EXPECT_EQ(count, 4);

  std::tuple<torch::Tensor, int, std::string> mixed = {torch::ones({}), 3, "three"};
  detail::for_each_tensor(mixed, [&](torch::Tensor& tensor) { tensor = tensor * 2; });
  EXPECT_EQ(std::get<0>(mixed).item<float>(), 2);
  EXPECT_EQ(std::get<1>(mixed), 3);
}

struct Heads {
  torch::Tensor value;
  std::vector<torch::Tensor> more;
  int64_t rows = 0;
  template <class F>
  void each_tensor(F&& f) {
    f(value);
    f(more);
  }
};
struct HeadsNetImpl : ParallelNetImpl {
  Heads forward(const torch::Tensor& inputs) {
    torch::Tensor value = ParallelNetImpl::forward(inputs);
    return {value, {value * 2}, inputs.size(0)};
  }
};
TORCH_MODULE(HeadsNet);

// Uneven slices need the tensors, and so does the search for unused parameters.
TEST(DataParallel, StructOutputsSayTheirTensors) {
  on_ranks(2, [](const Seat& seat, SyncOptions options) {
    options.weight = [&] { return seat.rank == 0 ? 0.5 : 1.5; };
    torch::manual_seed(1);
    HeadsNet net;
    auto model = prepare_model(net, options);
    torch::manual_seed(1);
    HeadsNet alone;
    Batch all = batch_of(0, 8, torch::kFloat);
    auto loss = [](Heads output, const torch::Tensor& targets) {
      return torch::mse_loss(output.value, targets) + output.more[0].mean();
    };
    Batch mine = seat.rank == 0 ? all.rows(0, 2) : all.rows(2, 8);
    Heads output = model->forward(mine.inputs);
    require(output.rows == mine.inputs.size(0), "the rest of the struct");
    loss(output, mine.targets).backward();
    loss(alone->forward(all.inputs), all.targets).backward();
    require_close(net->first->weight.grad(), alone->first->weight.grad(), 1e-5, "the gradient");
  });
}

// Several forwards and backwards for each step.
TEST(DataParallel, LbfgsTrainsLikeOne) {
  on_ranks(2, [](const Seat& seat, const SyncOptions& options) {
    auto model = prepare_model(seeded_net(1 + seat.rank, torch::kDouble), options);
    ParallelNet alone = seeded_net(1, torch::kDouble);
    Batch all = batch_of(0, 8, torch::kDouble);
    auto train = [](auto& net, const Batch& batch) {
      torch::optim::LBFGS optimizer(net->parameters(), torch::optim::LBFGSOptions(0.1).max_iter(5));
      for (int step = 0; step < 3; ++step) {
        optimizer.step([&] {
          optimizer.zero_grad();
          auto loss = torch::mse_loss(net->forward(batch.inputs), batch.targets);
          loss.backward();
          return loss;
        });
      }
    };
    train(model, all.rows(seat.rank * 4, seat.rank * 4 + 4));
    train(alone, all);
    for (const auto& item : alone->named_parameters()) {
      require_close(model->named_parameters()[item.key()], item.value(), 1e-6, item.key());
    }
  });
}

TEST(WeighGradient, ScalesOnlyTheGradient) {
  torch::Tensor x = torch::ones({2}, torch::requires_grad());
  torch::Tensor y = detail::weigh_gradient(x * 3, 0.25);
  EXPECT_TRUE(torch::equal(y, torch::full({2}, 3.0)));
  y.sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::full({2}, 0.75)));
}

}  // namespace
}  // namespace manta::train
