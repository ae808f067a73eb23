// Runs of real processes, without a framework: where a restart begins, and what remains of a run
// that could not begin.

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/node.h"
#include "manta/core/object_ref.h"
#include "manta/core/remote.h"
#include "manta/core/session_folder_internal.h"
#include "manta/train/journal_internal.h"
#include "manta/train/session.h"
#include "manta/train/trainer.h"
#include "manta/train/training_internal.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::string checkpoint_folder(int n) {
  return get_context().run_folder + "/checkpoint_00000" + std::to_string(n);
}

// Reports 0 to 3, each with a checkpoint. The first attempt damages some of them after report 2 is
// committed, and fails.
void damage_and_fail(const Json& config) {
  auto context = get_context();
  Checkpoint from = get_checkpoint();
  int begin = from ? from.metrics().at("n").get<int>() + 1 : 0;
  std::string files = context.run_folder + "/mine";
  fs::create_directories(files);
  for (int n = begin; n < 4; ++n) {
    std::ofstream(files + "/model") << "weights " << n;
    train::report({{"n", n}, {"begin", begin}}, files);
    if (context.attempt > 0 || n < 2) continue;
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(50);
    while (!fs::exists(checkpoint_folder(n)) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (int damaged : config.at("damaged"))
      std::fstream(checkpoint_folder(damaged) + "/model", std::ios::in | std::ios::out).put('!');
    throw std::runtime_error("once");
  }
}

Training training(TrainLoop loop, const std::string& storage) {
  Training training;
  training.trainer = "TestTrainer";
  training.loop = loop.function();
  training.loop_takes_config = loop.takes_config();
  training.config = Json::object();
  training.scaling.resources_per_worker = {.cpus = 0.5};
  training.run = {.name = "run", .storage_path = storage, .verbose = false};
  training.framework = Json::object();
  return training;
}

// With max_failures = -1 it would otherwise begin with the damaged one for ever.
TEST(RestartTest, StepsBackFromADamagedCheckpoint) {
  struct {
    std::vector<int> damaged;
    std::vector<int> begins;  // the beginning of each report's attempt
  } cases[] = {
      {{}, {0, 0, 0, 3}}, {{2}, {0, 0, 2, 2}}, {{1, 2}, {0, 1, 1, 1}}, {{0, 1, 2}, {0, 0, 0, 0}}};
  for (const auto& one : cases) {
    TemporaryFolder storage;
    Training run = training(damage_and_fail, storage.path());
    run.config = {{"damaged", one.damaged}};
    run.run.failure_config.max_failures = -1;
    testing::internal::CaptureStderr();
    Result result = run_training(run);
    std::string warnings = testing::internal::GetCapturedStderr();
    std::vector<int> begins;
    for (const Json& metrics : result.metrics_history) begins.push_back(metrics.at("begin"));
    EXPECT_EQ(begins, one.begins);
    for (int damaged : one.damaged)
      EXPECT_THAT(warnings, HasSubstr(str("checkpoint_00000", damaged, "' is damaged")));
    EXPECT_EQ(warnings.find("the run begins anew") != std::string::npos, one.damaged.size() == 3);
    EXPECT_NO_THROW(Checkpoint::from_directory(result.checkpoint.path()));
    EXPECT_EQ(result.best_checkpoints.size(), 4u);
  }
}

// The second report has one metric more, for which progress.csv cannot be written anew: its
// checkpoint is committed, the report is not.
void spoil_the_second_report() {
  auto context = get_context();
  std::string files = context.run_folder + "/mine";
  fs::create_directories(files);
  std::ofstream(files + "/model") << "weights";
  Checkpoint from = get_checkpoint();
  if (!from) train::report({{"n", 0}}, files);
  if (!from) fs::create_directories(context.run_folder + "/progress.csv.new/in the way");
  train::report({{"n", 1}, {"from", from ? from.metrics().at("n").get<int>() : -1}}, files);
}

TEST(RestartTest, ACheckpointIsKeptUntilTheReportAfterItIsOnRecord) {
  TemporaryFolder storage;
  Training run = training(spoil_the_second_report, storage.path());
  run.run.checkpoint_config.num_to_keep = 1;
  EXPECT_THAT(message_of([&] { run_training(run); }), HasSubstr("progress.csv.new"));
  EXPECT_NO_THROW(Checkpoint::from_directory(storage / "run/checkpoint_000000"));
  fs::remove_all(storage / "run/progress.csv.new");
  fs::remove_all(storage / "run/checkpoint_000001");
  run.restore_from = storage / "run";
  EXPECT_EQ(run_training(run).metrics.at("from"), 0);
  EXPECT_FALSE(fs::exists(storage / "run/checkpoint_000000"));
}

// Makes files with the names of the sockets on which the next groups will listen.
void keep_the_next_group_from_starting(const Json& config) {
  for (int i = 0; i < 20; ++i)
    fs::create_directory(config.at("session").get<std::string>() + str("/train-", i, ".sock"));
  throw std::runtime_error("once");
}

TEST(RestartTest, AGroupThatCannotBeStartedAgainIsAFailureLikeOthers) {
  TemporaryFolder storage;
  Training run = training(keep_the_next_group_from_starting, storage.path());
  run.config = {{"session", current_session_folder()}};
  run.run.failure_config.max_failures = 2;
  Error error = error_of([&] { run_training(run); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("the driver failed"), HasSubstr(".sock")));
  History journal = history(read_journal(storage / "run/journal.jsonl"));
  EXPECT_EQ(journal.failures(), 3);
  EXPECT_EQ(journal.outcome(), "failed");
  EXPECT_EQ(journal.last_attempt(), 2);
  for (int i = 0; i < 20; ++i) fs::remove(current_session_folder() + str("/train-", i, ".sock"));
}

struct ThrowsANumber : CheckpointSource {
  void stage() override {}
  void write(CheckpointFolder&) override { throw 42; }
};

TEST(RestartTest, WhateverACheckpointSourceThrowsIsTold) {
  TemporaryFolder storage;
  TrainLoop loop = [] { train::report({{"n", 1}}, std::make_shared<ThrowsANumber>()); };
  EXPECT_THAT(message_of([&] { run_training(training(loop, storage.path())); }),
              HasSubstr("rank 0 failed: writing the checkpoint of report 0: it threw something "
                        "that is no std::exception"));
}

// Such text works in messages about it, too.
TEST(RestartTest, TextThatIsNotUtf8) {
  TemporaryFolder storage;
  Training run = training([] { train::report(Json("a \xff")); }, storage.path());
  EXPECT_THAT(message_of([&] { run_training(run); }), HasSubstr("metrics must be a JSON object"));
  run.config = "a \xff";
  EXPECT_THAT(message_of([&] { check_training(run); }), HasSubstr("must be a JSON object"));
}

void do_nothing() {}

std::string fit_in_task(const std::string& storage) {
  return message_of([&] { run_training(training(do_nothing, storage)); });
}

TEST(RestartTest, FitInATaskLeavesTheNameFree) {
  TemporaryFolder storage;
  EXPECT_THAT(get(remote(fit_in_task, storage.path())),
              HasSubstr("TestTrainer::fit was called in a task"));
  EXPECT_THAT(storage.entries(), ElementsAre());
  EXPECT_EQ(run_training(training(do_nothing, storage.path())).path, storage / "run");
}

TEST(RestartTest, AMachineWithoutGpusSaysWhatWasAskedAndFound) {
  if (nodes().front().total.gpus > 0) GTEST_SKIP() << "this machine has GPUs";
  TemporaryFolder storage;
  Training wants = training(do_nothing, storage.path());
  wants.scaling.use_gpu = true;
  for (double share : {0.0, 0.5}) {  // 0: a whole one
    wants.scaling.resources_per_worker.gpus = share;
    EXPECT_THAT(message_of([&] { run_training(wants); }),
                AllOf(HasSubstr(share == 0 ? "asks for 1 worker with 0.5 CPU, 1 GPU each"
                                           : "asks for 1 worker with 0.5 CPU, 0.5 GPU each"),
                      HasSubstr("there is only 2 CPU"),
                      HasSubstr("no GPU was found: set use_gpu = false")));
  }
  EXPECT_THAT(storage.entries(), ElementsAre());
}

TEST(RestartTest, WrongOptionsLeaveTheNameFree) {
  TemporaryFolder storage;
  auto refused = [&](const std::function<void(Training&)>& change) {
    Training wrong = training(do_nothing, storage.path());
    change(wrong);
    return message_of([&] { run_training(wrong); });
  };
  EXPECT_THAT(refused([](Training& t) { t.run.folder_mode = 0500; }), HasSubstr("was 0500"));
  EXPECT_THAT(refused([](Training& t) { t.scaling.num_workers = 20'000; }), HasSubstr("was 20000"));
  EXPECT_THAT(
      refused([](Training& t) { t.run.collective_timeout = std::chrono::hours(1'000'000); }),
      HasSubstr("at most ten years"));
  EXPECT_THAT(storage.entries(), ElementsAre());
}

// A checkpoint that cannot be read ends the run at once, however many failures are allowed.
TEST(RestartTest, ADamagedCheckpointToBeginWithIsSaid) {
  TemporaryFolder storage;
  Training first = training(damage_and_fail, storage.path());
  first.config = {{"damaged", Json::array()}};
  first.run.failure_config.max_failures = 1;
  Training second = training(do_nothing, storage.path());
  second.run.name = "second";
  second.run.failure_config.max_failures = -1;
  second.resume_from_checkpoint = run_training(first).checkpoint;
  std::fstream(second.resume_from_checkpoint.file("model"), std::ios::in | std::ios::out).put('!');
  Error error = error_of([&] { run_training(second); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), HasSubstr("'model'"));
}

}  // namespace
}  // namespace manta::train
