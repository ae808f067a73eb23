// Several runs at once in one program, with real processes.

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/base_trainer.h"
#include "manta/train/session.h"
#include "manta/train/training_internal.h"

namespace manta::train {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

// Three reports with checkpoints; the first attempt of some is killed after the second one.
void report_thrice(const Json& config) {
  auto context = get_context();
  Checkpoint from = get_checkpoint();
  std::string files = context.run_folder + "/mine";
  fs::create_directories(files);
  for (int n = from ? from.metrics().at("n").get<int>() + 1 : 0; n < 3; ++n) {
    std::ofstream(files + "/model") << "weights " << n;
    report({{"n", n}, {"id", config.at("id")}}, files);
    if (n == 1 && context.attempt == 0 && config.at("dies")) ::raise(SIGKILL);
  }
}

void wait_for_ever(const Json&) {
  std::ofstream(get_context().run_folder + "/begun") << "yes";
  while (true) std::this_thread::sleep_for(10ms);
}

Training one_of_many(TrainLoop loop, const std::string& storage, int id) {
  Training training;
  training.trainer = "TestTrainer";
  training.loop = loop.function();
  training.config = {{"id", id}, {"dies", id % 3 == 0}};
  training.scaling.resources_per_worker = {.cpus = 0.2};
  training.run = {.name = str("run", id), .storage_path = storage, .verbose = false};
  training.run.failure_config.max_failures = 1;
  return training;
}

int open_descriptors() {
  return static_cast<int>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

int threads_of_this_process() {
  return static_cast<int>(
      std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()));
}

// Its loop has begun.
bool has_begun(const TemporaryFolder& storage, int id) {
  return fs::exists(str(storage.path(), "/run", id, "/begun"));
}

TEST(ConcurrentRunsTest, TenRunsWithKillsDoNotDisturbEachOther) {
  TemporaryFolder storage;
  { RunHandle(one_of_many(report_thrice, storage.path(), 100)).result(); }  // what is made once
  int descriptors = open_descriptors(), threads = threads_of_this_process();
  {
    std::vector<RunHandle> runs;
    for (int id = 0; id < 10; ++id) {
      runs.emplace_back(one_of_many(report_thrice, storage.path(), id));
    }
    for (int id = 0; id < 10; ++id) {
      Result result = runs[static_cast<size_t>(id)].result();
      EXPECT_TRUE(runs[static_cast<size_t>(id)].done());
      ASSERT_EQ(result.metrics_history.size(), 3u);
      EXPECT_EQ(result.metrics.at("id"), id);
      EXPECT_EQ(result.metrics.at("n"), 2);
      EXPECT_NO_THROW(Checkpoint::from_directory(result.checkpoint.path()));
    }
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; }));
  EXPECT_TRUE(eventually([&] { return threads_of_this_process() <= threads; }));
}

TEST(ConcurrentRunsTest, OneIsStoppedAndTheOthersGoOn) {
  TemporaryFolder storage;
  RunHandle stopped(one_of_many(wait_for_ever, storage.path(), 1));
  RunHandle other(one_of_many(report_thrice, storage.path(), 2));
  EXPECT_FALSE(stopped.done());
  ASSERT_TRUE(eventually([&] { return has_begun(storage, 1); }));
  stopped.stop();
  Error error = error_of([&] { stopped.result(); });
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(error.what(), HasSubstr("restore"));
  EXPECT_EQ(other.result().metrics.at("n"), 2);
  stopped.stop();  // nothing any more
}

TEST(ConcurrentRunsTest, AHandleThatGoesEndsItsRun) {
  TemporaryFolder storage;
  {
    RunHandle run(one_of_many(wait_for_ever, storage.path(), 1));
    ASSERT_TRUE(eventually([&] { return has_begun(storage, 1); }));
  }
  EXPECT_EQ(RunHandle(one_of_many(report_thrice, storage.path(), 2)).result().metrics.at("n"), 2);
}

TEST(ConcurrentRunsTest, CtrlCEndsAllAndIsTheProgramsAgainAfterwards) {
  TemporaryFolder storage;
  std::vector<RunHandle> runs;
  for (int id = 0; id < 3; ++id) {
    runs.emplace_back(one_of_many(wait_for_ever, storage.path(), id));
  }
  ASSERT_TRUE(eventually(
      [&] { return has_begun(storage, 0) && has_begun(storage, 1) && has_begun(storage, 2); }));
  ::kill(::getpid(), SIGINT);
  for (auto& run : runs) {
    EXPECT_EQ(error_of([&] { run.result(); }).kind(), ErrorKind::kCancelled);
  }
  EXPECT_TRUE(eventually([] {
    struct sigaction now {};
    ::sigaction(SIGINT, nullptr, &now);
    return now.sa_handler == SIG_DFL;
  }));
}

std::string marker(const std::string& storage, int id) { return str(storage, "/shown", id); }

// Ends when both runs have shown their first report.
void say_something(const Json& config) {
  int id = config.at("id");
  std::string storage = fs::path(get_context().run_folder).parent_path();
  std::cout << "the output of " << id << std::endl;
  report({{"n", 0}});
  report({{"n", 1}});  // waits for the first
  std::ofstream(marker(storage, id)) << "shown";
  eventually([&] { return fs::exists(marker(storage, 3 - id)); });
}

TEST(ConcurrentRunsTest, TheirLinesSayWhichRunTheyAreOf) {
  TemporaryFolder storage;
  testing::internal::CaptureStderr();
  {
    Training a = one_of_many(say_something, storage.path(), 1);
    Training b = one_of_many(say_something, storage.path(), 2);
    a.run.verbose = b.run.verbose = true;
    RunHandle first(a);
    ASSERT_TRUE(eventually([&] { return fs::exists(marker(storage.path(), 1)); }));
    RunHandle second(b);
    first.result();
    second.result();
  }
  { RunHandle(one_of_many(report_thrice, storage.path(), 4)).result(); }
  std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown, HasSubstr("(rank-0) the output of 1"));  // it was the only one then
  EXPECT_THAT(shown, HasSubstr("(run2/rank-0) the output of 2"));
  EXPECT_THAT(shown, HasSubstr("manta: run2: report 0"));
  EXPECT_TRUE(fs::exists(storage / "run2/logs/rank-0.log"));
}

}  // namespace
}  // namespace manta::train
