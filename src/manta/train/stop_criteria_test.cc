// When runs are complete: by metrics, reports and time.

#include <arrow/table.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/actor.h"
#include "manta/train/controller_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/journal_internal.h"
#include "manta/train/params_internal.h"
#include "manta/train/session.h"
#include "manta/train/stop_criteria_internal.h"
#include "manta/train/test_training_internal.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(StopCriteriaTest, AreMetByWhatAReportHas) {
  auto complete = [](StopCriteria stop, const Json& metrics, int64_t index = 0) {
    return is_complete(stop, {index, 0, 0, 0, metrics, ""});
  };
  EXPECT_FALSE(complete({}, {{"auc", 1}}, 1000));
  EXPECT_TRUE(complete({.at_least = {{"auc", 0.9}}}, {{"auc", 0.9}}));
  EXPECT_FALSE(complete({.at_least = {{"auc", 0.9}}}, {{"auc", 0.89}}));
  EXPECT_FALSE(complete({.at_least = {{"auc", 0.9}}}, {{"auc", std::nan("")}}));
  EXPECT_FALSE(complete({.at_least = {{"auc", 0.9}}}, {{"auc", "high"}}));
  EXPECT_TRUE(complete({.at_most = {{"valid/loss", 0.1}}}, {{"valid", {{"loss", 0.05}}}}));
  EXPECT_FALSE(complete({.at_most = {{"loss", 0.1}}}, {{"valid", {{"loss", 0.05}}}}));
  EXPECT_TRUE(complete({.iterations = 3}, Json::object(), 2));
  EXPECT_FALSE(complete({.iterations = 3}, Json::object(), 1));
}

TEST(StopCriteriaTest, ThoseThatMakeNoSenseAreRefused) {
  EXPECT_THAT(message_of([] { check_stop_criteria({.iterations = -1}); }), HasSubstr("was -1"));
  EXPECT_THAT(message_of([] { check_stop_criteria({.time = std::chrono::milliseconds(-5)}); }),
              HasSubstr("was -5 ms"));
  EXPECT_THAT(message_of([] {
                check_stop_criteria({.at_most = {{"x", std::nan("")}}});
              }),
              HasSubstr("'x'"));
}

TEST(StopCriteriaTest, ParamsKeepThem) {
  RunConfig run;
  run.stop = {{{"auc", 0.9}}, {{"loss", 0.1}}, 7, std::chrono::minutes(3)};
  run.verbose = 3;
  run.checkpoint_config.fsync = true;
  Json json = run_config_to_json(run);
  RunConfig back = run_config_from_json(JsonFields(json, std::string("it")));
  EXPECT_EQ(back.stop, run.stop);
  EXPECT_EQ(back.verbose, 3);
  EXPECT_TRUE(back.checkpoint_config.fsync);
  json["verbose"] = true;  // as earlier versions wrote it
  json.erase("stop");
  EXPECT_EQ(run_config_from_json(JsonFields(json, std::string("it"))).verbose, 1);
}

void endless_loop(const Json& config) {
  std::string files = get_context().run_folder + "/mine";
  std::filesystem::create_directories(files);
  std::ofstream(files + "/sub_state") << "state";
  for (int n = 0;; ++n) {
    if (n == config.value("silent_from", -1)) std::this_thread::sleep_for(std::chrono::hours(1));
    train::report({{"n", n}, {"auc", 0.1 * n}, {"even", n % 2 == 0}, {"note", "x"}}, files);
  }
}

TEST(StopCriteriaTest, EndARunWhichIsThenComplete) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), endless_loop);
  training.run.stop.at_least = {{"auc", 0.35}};
  training.run.checkpoint_config.fsync = true;
  Result result = run_training(training);
  EXPECT_EQ(result.outcome, RunOutcome::kStopped);
  EXPECT_EQ(result.metrics.at("n"), 4);
  auto table = result.metrics_dataframe();
  EXPECT_EQ(table->num_rows(), 5);
  EXPECT_THAT(table->schema()->ToString(),
              AllOf(HasSubstr("n: int64"), HasSubstr("auc: double"), HasSubstr("even: bool"),
                    HasSubstr("note: string")));
  TrainLoop loop = endless_loop;
  Training again = restore_training(storage / "toy", "ToyTrainer", {});
  again.loop = loop.function();
  EXPECT_EQ(run_training(again).metrics_history.size(), 5u);
}

TEST(StopCriteriaTest, TimePassesAlsoWithoutAReport) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), endless_loop, {{"silent_from", 2}});
  training.run.stop.time = std::chrono::milliseconds(500);
  Result result = run_training(training);
  EXPECT_EQ(result.outcome, RunOutcome::kStopped);
  EXPECT_LE(result.metrics_history.size(), 2u);
}

struct HoldsCpus {
  int hold() { return 1; }
};

// An hour in the queue for CPUs would otherwise use up an hour of the run.
TEST(StopCriteriaTest, TimeDoesNotPassWhileARunWaitsForResources) {
  constexpr std::chrono::seconds kLimit(8);
  TemporaryFolder storage;
  Training training = test_training(storage.path(), [] { train::report({{"n", 1}}); });
  training.run.stop.time = kLimit;
  auto holder = actor<HoldsCpus>(ActorOptions{.resources = {.cpus = 2}});
  get(holder.call<&HoldsCpus::hold>(), std::chrono::seconds(30));
  std::thread release([&] {
    std::this_thread::sleep_for(kLimit + std::chrono::milliseconds(200));
    kill(holder);
  });
  Result result = run_training(training);
  release.join();
  EXPECT_EQ(result.outcome, RunOutcome::kFinished);
  EXPECT_EQ(result.metrics_history.size(), 1u);
}

// The result of a restored run that may take an hour, with these times in its journal.
Result restored_with_times(double group_started, double reported) {
  TemporaryFolder storage;
  auto fails_first = [] {
    train::report({{"n", 1}}, Checkpoint::from_dict({.values = {{"n", 1}}}));
    if (get_context().attempt == 0) throw std::runtime_error("on purpose");
  };
  TrainLoop loop = fails_first;
  Training training = test_training(storage.path(), loop);
  EXPECT_THROW(run_training(training), Error);
  std::string path = storage / "toy/journal.jsonl", text;
  for (JournalEvent& event : read_journal(path)) {
    event.time =
        event.event == kAttemptStarted || event.event == kGroupStarted ? group_started : reported;
    text += Json{{"time", event.time},
                 {"attempt", event.attempt},
                 {"event", event.event},
                 {"details", event.details}}
                .dump() +
            "\n";
  }
  replace_file(path, text);
  Training again = restore_training(storage / "toy", "ToyTrainer", {});
  again.loop = loop.function();
  again.run.stop.time = std::chrono::hours(1);
  return run_training(again);
}

TEST(StopCriteriaTest, TimeBeforeARestoreCounts) {
  EXPECT_EQ(restored_with_times(1000, 1000 + 3500).outcome, RunOutcome::kFinished);
  for (double most : {1000 + 3600.0, 1e15}) {
    Result result = restored_with_times(most > 1e14 ? -1e15 : 1000, most);
    EXPECT_EQ(result.outcome, RunOutcome::kStopped) << most;
    EXPECT_EQ(result.metrics_history.size(), 1u) << most;
  }
}

TEST(StopCriteriaTest, VerboseSaysMoreAndMore) {
  for (int verbose : {0, 1, 2, 3}) {
    TemporaryFolder storage;
    Training training = test_training(storage.path(), endless_loop);
    training.run.stop.iterations = 1;
    training.run.verbose = verbose;
    testing::internal::CaptureStderr();
    run_training(training);
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("report 0:") != std::string::npos, verbose >= 1) << said;
    EXPECT_EQ(said.find("checkpoint_000000 is committed") != std::string::npos, verbose >= 2)
        << said;
    EXPECT_EQ(said.find("\"auc\":0.0") != std::string::npos, verbose >= 3) << said;
  }
}

}  // namespace
}  // namespace manta::train
