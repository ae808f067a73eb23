// Runs of real processes, without a framework: where a restart begins, and what stays of a run that
// could not begin.

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/object_ref.h"
#include "manta/core/remote.h"
#include "manta/train/session.h"
#include "manta/train/trainer.h"
#include "manta/train/training_internal.h"

namespace manta::train {
namespace {

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
    std::vector<int> begins;  // of the attempt that each report is from
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
    EXPECT_NO_THROW(Checkpoint::from_directory(result.checkpoint.path()));
    EXPECT_EQ(result.best_checkpoints.size(), 4u);
  }
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

// One that nothing can be read from ends the run at once, however many failures it may have.
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
