// The errors when the ranks do not take the same steps, and that there are none when they do. The
// runs' collective_timeout is longer than a test may take.

#include <gmock/gmock.h>

#include <filesystem>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/torch/prepare_model.h"
#include "manta/torch/torch_batches.h"
#include "manta/torch/torch_checkpoint.h"
#include "manta/torch/torch_trainer.h"
#include "manta/train/session.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct PartNetImpl : torch::nn::Module {
  explicit PartNetImpl(int64_t width) {
    layers = register_module(
        "layers", torch::nn::Sequential(torch::nn::Linear(1, width), torch::nn::Linear(width, 1)));
  }
  torch::Tensor forward(const torch::Tensor& x) { return layers->forward(x); }
  torch::nn::Sequential layers;
};
TORCH_MODULE(PartNet);

// Three megabytes go through Reducer; small models in one exchange.
PartNet make_net(const Json& config) { return PartNet(config.value("large", false) ? 300'000 : 4); }

void backward(train::DataParallel<PartNet>& model) {
  model->forward(torch::ones({2, 1})).sum().backward();
}

// One epoch of ten steps, in which rank 0 does something different at its third step.
void train_until(const Json& config, void (*at_three)()) {
  auto model = train::prepare_model(make_net(config), {.sharded = config.value("sharded", false)});
  auto shard = train::get_dataset_shard();
  int step = 0;
  for (auto& batch : iter_torch_batches(shard, {.global_batch_size = 10})) {
    (void)batch;
    // With "both", the other rank does it later: both then make equally many exchanges.
    if (++step == 5 && train::get_context().world_rank == 1 && config.value("both", false))
      continue;
    if (step == 3 && train::get_context().world_rank == 0) {
      if (!at_three) return;
      at_three();
      if (config.value("skip", false)) continue;
    }
    backward(model);
  }
  train::report({{"steps", step}});
}

void report_twice() {
  train::report({{"n", 1}});
  train::report({{"n", 2}});
}

class RanksPart : public testing::Test {
 protected:
  TorchTrainerOptions options(TrainLoop loop, const Json& config = Json::object()) {
    TorchTrainerOptions options;
    options.train_loop_per_worker = loop;
    options.train_loop_config = config;
    options.scaling_config = {.num_workers = 2, .resources_per_worker = {.cpus = 0.25}};
    options.run_config = {.storage_path = folder_.path(), .verbose = false};
    options.run_config.name = "run-" + std::to_string(runs_++);
    options.run_config.collective_timeout = 10min;
    options.torch_config.backend = config.value("backend", "auto");
    options.datasets = {{"train", data::read_parquet(folder_.write_rows("rows", 0, 100, 50))}};
    return options;
  }
  std::string failure(TrainLoop loop, const Json& config = Json::object()) {
    return message_of([&] { TorchTrainer(options(loop, config)).fit(); });
  }
  data::ParquetFolder folder_;
  int runs_ = 0;
};

const std::vector<Json> kPaths{{{"backend", "shm"}, {"large", false}},
                               {{"backend", "shm"}, {"large", true}},
                               {{"backend", "gloo"}, {"large", false}},
                               {{"backend", "gloo"}, {"large", true}}};

TEST_F(RanksPart, WhenOneReturnsEarly) {
  for (const Json& config : kPaths) {
    EXPECT_THAT(failure([](const Json& config) { train_until(config, nullptr); }, config),
                AllOf(HasSubstr("rank 1 failed: it waits in an allreduce (of step 3) that "
                                "rank 0 never joins: rank 0 has returned from the loop"),
                      HasSubstr("every rank must take the same steps")))
        << config;
  }
}

TEST_F(RanksPart, WhenOneIsInReport) {
  for (const Json& config : kPaths) {
    EXPECT_THAT(
        failure([](const Json& config) { train_until(config, report_twice); }, config),
        HasSubstr("rank 1 failed: it waits in an allreduce (of step 3) that rank 0 "
                  "never joins: rank 0 waits in train::report for report 0, which rank 1 has "
                  "not made"))
        << config;
  }
}

TEST_F(RanksPart, WhenOneSkipsABatch) {
  std::vector<Json> paths = kPaths;
  paths.push_back({{"backend", "gloo"}, {"sharded", true}});
  for (Json config : paths) {
    for (bool both : {false, true}) {
      config["skip"] = true;
      config["both"] = both;
      EXPECT_THAT(failure([](const Json& config) { train_until(config, [] {}); }, config),
                  HasSubstr("the ranks are at different steps: rank 1 at step 3, "
                            "rank 0 at step 4 of their epoch"))
          << config;
    }
  }
}

TEST_F(RanksPart, WhenOneDoesNotOpenTheDataSet) {
  auto loop = [] {
    if (train::get_context().world_rank == 0) return report_twice();
    for (auto& batch : iter_torch_batches(train::get_dataset_shard())) (void)batch;
  };
  EXPECT_THAT(
      failure(loop),
      HasSubstr("rank 1 failed: it waits for rows of epoch 0 of data set 'train', which rank "
                "0 never asks for: rank 0 waits in train::report for report 0"));
}

TEST_F(RanksPart, WhenOneDoesNotPrepareItsModel) {
  for (const char* backend : {"shm", "gloo"}) {
    auto loop = [](const Json& config) {
      if (train::get_context().world_rank == 0) return report_twice();
      train::prepare_model(make_net(config));
    };
    EXPECT_THAT(failure(loop, {{"backend", backend}}),
                HasSubstr("rank 1 failed: it waits in a process group that forms (prepare_model) "
                          "that rank 0 never joins"));
  }
}

// A checkpoint that takes long to write.
struct SlowSource : CheckpointSource {
  void stage() override {}
  void write(CheckpointFolder& folder) override {
    std::this_thread::sleep_for(800ms);
    folder.write("file", "text");
  }
  std::optional<uint64_t> fingerprint() const override { return train::get_context().world_rank; }
};

class RanksThatAreSlow : public RanksPart, public testing::WithParamInterface<size_t> {};

// Each of the waits here lasts longer than the time after which the driver hears of it.
TEST_P(RanksThatAreSlow, HaveNotParted) {
  auto loop = [](const Json& config) {
    bool first = train::get_context().world_rank == 0;
    if (!first) std::this_thread::sleep_for(700ms);  // the other waits in prepare_model
    auto model = train::prepare_model(make_net(config));
    auto shard = train::get_dataset_shard();
    for (int epoch = 0; epoch < 2; ++epoch) {
      if (first) std::this_thread::sleep_for(700ms);  // the other waits for rows
      int step = 0;
      for (auto& batch : iter_torch_batches(shard, {.global_batch_size = 50})) {
        (void)batch;
        if (++step == 2 && !first) std::this_thread::sleep_for(700ms);  // in an exchange
        backward(model);
      }
      if (first) std::this_thread::sleep_for(700ms);  // an evaluation
      train::report({{"epoch", epoch}});
      train::report({{"epoch", epoch}}, first ? std::make_shared<SlowSource>() : nullptr);
    }
  };
  Result result = TorchTrainer(options(loop, kPaths[GetParam()])).fit();
  EXPECT_EQ(result.metrics_history.size(), 4u);
}

INSTANTIATE_TEST_SUITE_P(OnEveryPath, RanksThatAreSlow, testing::Range<size_t>(0, 4));

// Then the step is not known, nor what the ranks wait for.
TEST_F(RanksPart, NotWhenOneTakesBatchesOnAnotherThread) {
  auto loop = [](const Json& config) {
    auto model = train::prepare_model(make_net(config));
    auto shard = train::get_dataset_shard();
    bool first = train::get_context().world_rank == 0;
    std::thread ahead([&] {
      for (auto& batch : iter_torch_batches(shard, {.global_batch_size = 10})) {
        (void)batch;
        if (first) std::this_thread::sleep_for(50ms);
      }
    });
    for (int step = 0; step < 5; ++step) backward(model);
    ahead.join();
    train::report({{"n", 1}});
  };
  EXPECT_EQ(TorchTrainer(options(loop)).fit().metrics.at("n"), 1);
}

TEST_F(RanksPart, ACheckpointOfNoFilesIsRefused) {
  auto loop = [](const Json& config) {
    PartNet net = make_net(config);
    if (train::get_context().world_rank == 1) {
      train::report({{"n", 1}}, TorchCheckpoint::from_model(net));
    } else {
      train::report({{"n", 1}});
    }
  };
  EXPECT_THAT(failure(loop), AllOf(HasSubstr("the checkpoint of report 0, given by rank 1, has no "
                                             "files"),
                                   HasSubstr("rank 0 must give it to train::report, too")));
}

TEST_F(RanksPart, ModelsThatDifferAreWarnedOf) {
  auto loop = [] { train::report({{"n", 1}}, std::make_shared<SlowSource>()); };
  auto clash = options(loop);
  testing::internal::CaptureStderr();
  EXPECT_THROW(TorchTrainer(clash).fit(), Error);  // both write the same file
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("the model's parameters differ between ranks 0 and 1: was prepare_model "
                        "forgotten?"));
}

TEST_F(RanksPart, AForgottenPrepareModelIsWarnedOf) {
  auto forgotten = [] {
    torch::manual_seed(train::get_context().world_rank);
    train::report({{"n", 1}}, TorchCheckpoint::from_model(PartNet(4)));
  };
  auto prepared = [] {
    torch::manual_seed(train::get_context().world_rank);
    train::report({{"n", 1}}, TorchCheckpoint::from_model(train::prepare_model(PartNet(4))));
  };
  auto warnings_of = [&](auto loop) {
    testing::internal::CaptureStderr();
    TorchTrainer(options(loop)).fit();
    return testing::internal::GetCapturedStderr();
  };
  const std::string warning = "the model's parameters differ between ranks 0 and 1";
  EXPECT_THAT(warnings_of(forgotten), HasSubstr(warning));
  EXPECT_THAT(warnings_of(prepared), testing::Not(HasSubstr(warning)));
}

// Then nothing can be compared. There is no warning if the model was prepared, averaged by hand, or
// not trained at all; there is one if the ranks have only exchanged something else.
TEST_F(RanksPart, AForgottenPrepareModelIsWarnedOfIfOnlyRankZeroGivesTheModel) {
  auto loop = [](const Json& config) {
    auto is = [&](const char* name) { return config.value(name, false); };
    PartNet net(4), other(4);
    if (is("other")) train::prepare_model(other)->forward(torch::ones({2, 1})).sum().backward();
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    auto backward = [](auto& model) { model->forward(torch::ones({2, 1})).sum().backward(); };
    if (is("prepare")) {
      auto model = train::prepare_model(net);  // the prepared model is gone when the report is made
      backward(model);
    } else if (is("train")) {
      backward(net);
    }
    if (is("loss")) {
      std::vector<torch::Tensor> loss = {torch::ones({1})};
      train::get_process_group()->allreduce(loss)->wait();
    }
    if (is("by_hand")) {
      for (torch::Tensor& parameter : net->parameters()) {
        std::vector<torch::Tensor> gradient = {parameter.mutable_grad()};
        train::get_process_group()->allreduce(gradient)->wait();
      }
    }
    optimizer.step();
    if (is("zero_grad")) optimizer.zero_grad();
    for (int n = 0; n < 2; ++n) {
      if (train::get_context().world_rank == 0) {
        train::report({{"n", n}}, TorchCheckpoint::from_model(net, optimizer));
      } else {
        train::report({{"n", n}});
      }
    }
  };
  auto warnings_with = [&](const std::vector<std::string>& what, int workers = 2) {
    Json config = Json::object();
    for (const std::string& name : what) config[name] = true;
    auto all = options(loop, config);
    all.scaling_config.num_workers = workers;
    testing::internal::CaptureStderr();
    TorchTrainer(all).fit();
    return testing::internal::GetCapturedStderr();
  };
  const std::string warning = "only rank 0 of 2 gives its model at report 0";
  EXPECT_THAT(warnings_with({"train"}), HasSubstr(warning));
  EXPECT_THAT(warnings_with({"train", "zero_grad"}), HasSubstr(warning));
  EXPECT_THAT(warnings_with({"train", "loss"}), HasSubstr(warning));
  EXPECT_THAT(warnings_with({"train", "other"}), HasSubstr(warning));
  EXPECT_THAT(warnings_with({"prepare"}), Not(HasSubstr("prepare_model")));
  EXPECT_THAT(warnings_with({"train", "by_hand"}), Not(HasSubstr("prepare_model")));
  EXPECT_THAT(warnings_with({}), Not(HasSubstr("prepare_model")));
  EXPECT_THAT(warnings_with({"train"}, 1), Not(HasSubstr("prepare_model")));
}

// Shared memory is for at most 512 workers, Gloo for any number.
TEST_F(RanksPart, OnlyTheBackendThatUsesItGetsSharedMemory) {
  auto loop = [] {
    int regions = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      regions +=
          std::filesystem::read_symlink(entry.path(), gone).string().find("manta-collective") !=
          std::string::npos;
    }
    train::report({{"regions", regions}});
  };
  EXPECT_EQ(TorchTrainer(options(loop, {{"backend", "shm"}})).fit().metrics.at("regions"), 1);
  EXPECT_EQ(TorchTrainer(options(loop, {{"backend", "gloo"}})).fit().metrics.at("regions"), 0);
}

}  // namespace
}  // namespace manta
