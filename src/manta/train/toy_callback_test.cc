// User-defined callbacks, in one file: they watch runs, stop and pause them, and start them anew
// with other workers and another config.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/callback.h"
#include "manta/train/run_handle.h"
#include "manta/train/session.h"
#include "manta/train/test_training_internal.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Counts to config["limit"], and reports its settings each time. Rank 0 kills itself before
// config["die_at"], in the first attempt.
void count_with_workers(const Json& config) {
  Context context = get_context();
  Checkpoint from = get_checkpoint();
  std::string files = str(context.run_folder, "/mine-", context.world_rank);
  std::filesystem::create_directories(files);
  for (int n = from ? from.metrics().at("n").get<int>() + 1 : 0; n < config.at("limit"); ++n) {
    if (config.value("die_at", -1) == n && context.attempt == 0) ::raise(SIGKILL);
    std::ofstream(str(files, "/state-", context.world_rank)) << n;
    Json metrics = {{"n", n}, {"workers", context.world_size}, {"rate", config.value("rate", 1)}};
    if (n % 2 == 0) {
      train::report(metrics, files);
    } else {
      train::report(metrics);
    }
  }
}

Training toy_training(const TemporaryFolder& storage, const Json& config,
                      std::vector<std::shared_ptr<Callback>> callbacks) {
  Training training = test_training(storage.path(), count_with_workers, config);
  training.run.callbacks = std::move(callbacks);
  training.scaling.resources_per_worker.cpus = 0.1;
  return training;
}

Training toy_restored(const std::string& path) {
  TrainLoop loop = count_with_workers;
  Training training = restore_training(path, "ToyTrainer", {});
  training.loop = loop.function();
  return training;
}

// Records all calls.
class Diary final : public Callback {
 public:
  void on_run_start(const RunInfo& run) override {
    lines.push_back(str("start ", run.name, " after ", run.reports.size()));
  }
  void on_checkpoint(const RunInfo&, const Checkpoint& checkpoint) override {
    Checkpoint::from_directory(checkpoint.path());  // is whole
    lines.push_back(str("checkpoint ", checkpoint.metrics().at("n")));
  }
  Decision on_report(const RunInfo& run, const ReportRecord& report) override {
    EXPECT_EQ(&report, &run.reports.back());
    lines.push_back(str("report ", report.index));
    return Decision::go_on();
  }
  void on_failure(const RunInfo&, const RunFailure& failure) override {
    lines.push_back(str(failure.who, " failed", failure.will_restart ? ", again" : ""));
    message = failure.message;
  }
  void on_run_end(const RunInfo&, RunOutcome outcome) override { outcomes.push_back(outcome); }

  std::vector<std::string> lines;
  std::vector<RunOutcome> outcomes;
  std::string message;
};

// Decides by a function.
class Judge final : public Callback {
 public:
  using Decide = std::function<Decision(const ReportRecord& report)>;
  explicit Judge(Decide decide) : decide_(std::move(decide)) {}
  Decision on_report(const RunInfo&, const ReportRecord& report) override {
    return decide_(report);
  }

 private:
  Decide decide_;
};

std::vector<int> each_n(const Result& result) {
  std::vector<int> all;
  for (const Json& metrics : result.metrics_history) all.push_back(metrics.at("n"));
  return all;
}

TEST(ToyCallbackTest, HearsOfEverythingInOrder) {
  TemporaryFolder storage;
  auto diary = std::make_shared<Diary>();
  Training training = toy_training(storage, {{"limit", 4}, {"die_at", 3}}, {diary});
  training.run.failure_config.max_failures = 1;
  Result result = run_training(training);
  EXPECT_EQ(result.outcome, RunOutcome::kFinished);
  EXPECT_THAT(each_n(result), ElementsAre(0, 1, 2, 3));
  // Reports that are on their way may be lost when a worker is killed.
  ASSERT_GE(diary->lines.size(), 6u);
  EXPECT_EQ(diary->lines.front(), "start toy after 0");
  EXPECT_THAT(diary->lines, testing::Contains("rank 0 failed, again"));
  EXPECT_THAT(diary->message, HasSubstr("SIGKILL"));
  EXPECT_EQ(diary->lines.back(), "report 3");
  EXPECT_THAT(diary->outcomes, ElementsAre(RunOutcome::kFinished));
}

TEST(ToyCallbackTest, StopsARunWhichIsCompleteThen) {
  TemporaryFolder storage;
  auto diary = std::make_shared<Diary>();
  auto judge = std::make_shared<Judge>([](const ReportRecord& report) {
    return report.metrics.at("n") == 2 ? Decision::stop() : Decision::go_on();
  });
  Result result = run_training(toy_training(storage, {{"limit", 1000}}, {judge, diary}));
  EXPECT_EQ(result.outcome, RunOutcome::kStopped);
  EXPECT_THAT(each_n(result), ElementsAre(0, 1, 2));
  EXPECT_EQ(result.checkpoint.metrics().at("n"), 2);
  EXPECT_THAT(diary->lines, ElementsAre("start toy after 0", "checkpoint 0", "report 0", "report 1",
                                        "checkpoint 2", "report 2"));
  EXPECT_THAT(diary->outcomes, ElementsAre(RunOutcome::kStopped));
  // There is nothing left to do.
  Result again = run_training(toy_restored(storage / "toy"));
  EXPECT_EQ(again.outcome, RunOutcome::kStopped);
  EXPECT_EQ(again.metrics_history, result.metrics_history);
}

TEST(ToyCallbackTest, PausesARunThatGoesOnLater) {
  TemporaryFolder storage;
  auto judge = std::make_shared<Judge>([](const ReportRecord& report) {
    return report.index == 3 ? Decision::pause() : Decision::go_on();
  });
  Training training = toy_training(storage, {{"limit", 6}}, {judge});
  Result paused = run_training(training);
  EXPECT_EQ(paused.outcome, RunOutcome::kPaused);
  EXPECT_THAT(each_n(paused), ElementsAre(0, 1, 2, 3));

  testing::internal::CaptureStderr();
  Training rest = toy_restored(storage / "toy");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("had 1 callback, which is not"));
  auto diary = std::make_shared<Diary>();
  rest.run.callbacks = {diary};
  Result result = run_training(rest);
  EXPECT_EQ(result.outcome, RunOutcome::kFinished);
  EXPECT_THAT(each_n(result), ElementsAre(0, 1, 2, 3, 4, 5));
  // Report 3 came after the last checkpoint: it is made again.
  EXPECT_THAT(diary->lines,
              ElementsAre("start toy after 4", "report 3", "checkpoint 4", "report 4", "report 5"));
}

TEST(ToyCallbackTest, StartsARunAnewWithOtherWorkersAndConfig) {
  TemporaryFolder storage;
  auto judge = std::make_shared<Judge>([](const ReportRecord& report) {
    if (report.index != 2 || report.attempt > 0) return Decision::go_on();
    ScalingConfig scaling{.num_workers = 2, .resources_per_worker = {.cpus = 0.1}};
    return Decision::restart(
        {.scaling_config = scaling, .train_loop_config = Json{{"limit", 5}, {"rate", 7}}});
  });
  Result result = run_training(toy_training(storage, {{"limit", 1000}}, {judge}));
  EXPECT_THAT(each_n(result), ElementsAre(0, 1, 2, 3, 4));
  for (const Json& metrics : result.metrics_history) {
    bool first = metrics.at("n") <= 2;
    EXPECT_EQ(metrics.at("workers"), first ? 1 : 2);
    EXPECT_EQ(metrics.at("rate"), first ? 1 : 7);
  }
  EXPECT_THAT(result.checkpoint.files(), ElementsAre("state-0", "state-1"));
  // A restored run has them, too.
  Training stored = toy_restored(storage / "toy");
  EXPECT_EQ(stored.scaling.num_workers, 2);
  EXPECT_EQ(stored.config.at("rate"), 7);
}

TEST(ToyCallbackTest, ADecisionThatCannotBeFollowedIsAnError) {
  TemporaryFolder storage;
  auto judge = std::make_shared<Judge>([](const ReportRecord&) {
    return Decision::restart({.scaling_config = ScalingConfig{.num_workers = -1}});
  });
  Training training = toy_training(storage, {{"limit", 3}}, {judge});
  training.run.failure_config.max_failures = -1;
  EXPECT_THAT(message_of([&] { run_training(training); }),
              HasSubstr("num_workers must be at least 1"));
}

TEST(ToyCallbackTest, ChangesWithoutARestartAreAnError) {
  TemporaryFolder storage;
  auto judge = std::make_shared<Judge>([](const ReportRecord&) {
    Decision decision = Decision::go_on();
    decision.changes.train_loop_config = Json{{"limit", 1}};
    return decision;
  });
  EXPECT_THAT(message_of([&] {
                run_training(toy_training(storage, {{"limit", 3}}, {judge}));
              }),
              AllOf(HasSubstr("Judge::on_report"), HasSubstr("Decision::restart(changes)")));
}

// Throws where it is told to.
class Clumsy final : public Callback {
 public:
  explicit Clumsy(std::string where) : where_(std::move(where)) {}
  void on_run_start(const RunInfo&) override { fall("on_run_start"); }
  Decision on_report(const RunInfo&, const ReportRecord&) override {
    fall("on_report");
    return Decision::go_on();
  }
  void on_failure(const RunInfo&, const RunFailure&) override { fall("on_failure"); }
  void on_run_end(const RunInfo&, RunOutcome) override { fall("on_run_end"); }

 private:
  void fall(const char* where) {
    if (where == where_) throw std::runtime_error("it fell");
  }
  std::string where_;
};

TEST(ToyCallbackTest, WhatACallbackThrowsIsAnErrorOfTheRun) {
  for (const char* where : {"on_run_start", "on_report", "on_run_end"}) {
    TemporaryFolder storage;
    auto diary = std::make_shared<Diary>();
    Training training =
        toy_training(storage, {{"limit", 2}}, {std::make_shared<Clumsy>(where), diary});
    Error error = error_of([&] { run_training(training); });
    EXPECT_EQ(error.kind(), ErrorKind::kUserCode);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(str("Clumsy::", where)), HasSubstr("it fell")));
    EXPECT_THAT(diary->lines, testing::Contains("start toy after 0")) << "the others are called";
  }
}

TEST(ToyCallbackTest, ARunThatHasNotBegunDoesNotUseUpItsName) {
  TemporaryFolder storage;
  Training training = toy_training(storage, {{"limit", 2}}, {});
  std::string table = storage / "toy/progress.csv";
  std::filesystem::create_directories(table + "/in the way");
  EXPECT_EQ(error_of([&] { run_training(training); }).kind(), ErrorKind::kIo);
  std::filesystem::remove_all(table);
  training.run.callbacks = {std::make_shared<Clumsy>("on_run_start")};
  EXPECT_EQ(error_of([&] { run_training(training); }).kind(), ErrorKind::kUserCode);
  training.run.callbacks.clear();
  EXPECT_EQ(run_training(training).metrics.at("n"), 1);
}

TEST(ToyCallbackTest, WhatOneThrowsAfterAFailureIsAWarning) {
  for (const char* where : {"on_failure", "on_run_end"}) {
    TemporaryFolder storage;
    Training training =
        toy_training(storage, {{"limit", 2}, {"die_at", 1}}, {std::make_shared<Clumsy>(where)});
    testing::internal::CaptureStderr();
    EXPECT_THAT(message_of([&] { run_training(training); }), HasSubstr("SIGKILL"));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("it fell"));
  }
}

TEST(ToyCallbackTest, CannotWaitForItsOwnRun) {
  TemporaryFolder storage;
  std::atomic<RunHandle*> handle = nullptr;
  std::string told;
  auto judge = std::make_shared<Judge>([&](const ReportRecord&) {
    while (!handle) std::this_thread::yield();
    told = message_of([&] { handle.load()->result(); });
    return Decision::go_on();
  });
  RunHandle run(toy_training(storage, {{"limit", 1}}, {judge}));
  handle = &run;
  run.result();
  EXPECT_THAT(told, HasSubstr("in a callback of the run itself"));
}

}  // namespace
}  // namespace manta::train
