// num_workers = 0: the loop and the data reader as threads of this process.

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/sources.h"
#include "manta/train/callback.h"
#include "manta/train/data_parallel_trainer.h"
#include "manta/train/session.h"
#include "manta/train/trainer.h"

namespace manta::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

// Memory that the test and the loop share: as if a user changed it in a debugger while the loop
// runs.
std::atomic<int64_t> rows_seen = 0;
std::atomic<bool> has_begun_here = false, goes_on = false;

DataParallelTrainerOptions in_driver(const TemporaryFolder& storage, TrainLoop loop) {
  std::vector<Json> items(100, Json{{"x", 1}});
  return {.train_loop_per_worker = loop,
          .scaling_config = {.num_workers = 0},
          .run_config = {.name = "run", .storage_path = storage.path(), .verbose = 0},
          .datasets = {{"train", data::from_items(items)}}};
}

void count_here(const Json& config) {
  auto context = get_context();
  Checkpoint from = get_checkpoint();
  for (int epoch = from ? from.to_dict().values.at("epoch").get<int>() + 1 : 0; epoch < 3;
       ++epoch) {
    for (const auto& batch : get_dataset_shard("train").iter_batches({.batch_size = 8}))
      rows_seen += batch->num_rows();
    train::report({{"epoch", epoch}, {"pid", ::getpid()}, {"world_size", context.world_size}},
                  Checkpoint::from_dict({.values = {{"epoch", epoch}}}));
    if (config.value("throws_at", -1) == epoch && context.attempt == 0)
      throw std::runtime_error("broken here");
  }
}

TEST(LoopInDriverTest, HasAllThatALoopHas) {
  TemporaryFolder storage;
  rows_seen = 0;
  Result result = DataParallelTrainer(in_driver(storage, count_here)).fit();
  EXPECT_EQ(rows_seen, 300);
  EXPECT_EQ(result.metrics.at("pid"), ::getpid());
  EXPECT_EQ(result.metrics.at("world_size"), 1);
  EXPECT_EQ(result.rows.at("train"), 100);
  EXPECT_EQ(result.checkpoint.to_dict().values.at("epoch"), 2);
  EXPECT_EQ(result.best_checkpoints.size(), 3u);
  EXPECT_TRUE(fs::exists(storage / "run/result.json"));
  EXPECT_THAT(message_of([] { get_context(); }), HasSubstr("only inside a training loop"));
}

// Whose code the debugger stops, too: with the loop, it is in this process.
class StandsStill final : public Callback {
 public:
  Decision on_report(const RunInfo&, const ReportRecord&) override {
    std::this_thread::sleep_for(500ms);
    return Decision::go_on();
  }
};

TEST(LoopInDriverTest, MayStandStillForLongerThanTheCollectiveTimeout) {
  TemporaryFolder storage;
  auto options = in_driver(storage, count_here);
  options.run_config.collective_timeout = 100ms;
  options.run_config.callbacks = {std::make_shared<StandsStill>()};
  EXPECT_EQ(DataParallelTrainer(options).fit().metrics.at("epoch"), 2);
}

TEST(LoopInDriverTest, FailsIsStartedAgainAndIsRestored) {
  TemporaryFolder storage;
  auto options = in_driver(storage, count_here);
  options.train_loop_config = {{"throws_at", 1}};
  std::string message = message_of([&] { DataParallelTrainer(options).fit(); });
  EXPECT_THAT(message, HasSubstr("broken here"));
  EXPECT_THAT(message, testing::Not(HasSubstr("its log")));
  auto restored =
      DataParallelTrainer::restore(storage / "run", {.train_loop_per_worker = count_here,
                                                     .train_loop_config = Json::object(),
                                                     .datasets = options.datasets});
  EXPECT_EQ(restored.fit().metrics_history.size(), 3u);

  options.run_config.name = "again";
  options.run_config.failure_config.max_failures = 1;
  EXPECT_EQ(DataParallelTrainer(options).fit().metrics_history.size(), 3u);
}

void wait_until_told() {
  has_begun_here = true;
  while (!goes_on) std::this_thread::sleep_for(1ms);
  train::report({{"n", 1}});
}

TEST(LoopInDriverTest, IsTheOnlyOneInTheProcess) {
  TemporaryFolder storage;
  has_begun_here = goes_on = false;
  auto options = in_driver(storage, wait_until_told);
  options.datasets = {};
  RunHandle run = DataParallelTrainer(options).start();
  options.run_config.name = "other";
  ASSERT_TRUE(eventually([] { return has_begun_here.load(); }));
  EXPECT_THAT(message_of([&] { DataParallelTrainer(options).fit(); }),
              HasSubstr("runs one already"));
  goes_on = true;
  EXPECT_EQ(run.result().metrics.at("n"), 1);
}

class StopAtFirst final : public Callback {
 public:
  Decision on_report(const RunInfo&, const ReportRecord&) override { return Decision::stop(); }
};

TEST(LoopInDriverTest, IsStoppedAtItsNextCall) {
  TemporaryFolder storage;
  auto options = in_driver(storage, [] {
    while (true) train::report({{"n", 1}});
  });
  options.datasets = {};
  options.run_config.callbacks = {std::make_shared<StopAtFirst>()};
  Result result = DataParallelTrainer(options).fit();
  EXPECT_EQ(result.outcome, RunOutcome::kStopped);

  options.run_config = {.name = "interrupted", .storage_path = storage.path(), .verbose = 0};
  RunHandle run = DataParallelTrainer(options).start();
  run.stop();
  EXPECT_THAT(message_of([&] { run.result(); }), HasSubstr("was interrupted"));
}

class PolicyOfCallbacks final : public Callback {
 public:
  Decision on_report(const RunInfo&, const ReportRecord&) override {
    policy = ::sched_getscheduler(0);
    return {};
  }
  int policy = -1;
};

// Nothing that a run does beside its loop takes the processor from it.
TEST(LoopInDriverTest, OnlyTheLoopInterruptsOthers) {
  TemporaryFolder storage;
  auto options = in_driver(storage, [] { train::report({{"policy", ::sched_getscheduler(0)}}); });
  auto callback = std::make_shared<PolicyOfCallbacks>();
  options.datasets = {};
  options.run_config.callbacks = {callback};
  Result result = DataParallelTrainer(options).fit();
  EXPECT_EQ(result.metrics.at("policy"), SCHED_OTHER);
  EXPECT_EQ(callback->policy, SCHED_BATCH);
}

TEST(LoopInDriverTest, TheEarlierTrainerCallsFunctionsHere) {
  TemporaryFolder storage;
  Trainer trainer("none",
                  {.num_workers = 0, .name = "t", .storage_path = storage.path(), .verbose = 0});
  trainer.start();
  EXPECT_THAT(trainer.run([] { return static_cast<int>(::getpid()); }), ElementsAre(::getpid()));
  EXPECT_THAT(trainer.run([] { return get_context().world_size; }), ElementsAre(1));
}

TEST(LoopInDriverTest, AGpuIsRefused) {
  TemporaryFolder storage;
  auto options = in_driver(storage, wait_until_told);
  options.scaling_config.use_gpu = true;
  EXPECT_THAT(message_of([&] { DataParallelTrainer trainer(options); }),
              HasSubstr("no GPU is assigned: leave use_gpu unset"));
  options.scaling_config.use_gpu = false;
  options.scaling_config.resources_per_worker.gpus = 0.5;
  EXPECT_THAT(message_of([&] { DataParallelTrainer trainer(options); }),
              HasSubstr("no GPU is assigned: leave resources_per_worker.gpus unset"));
}

}  // namespace
}  // namespace manta::train
