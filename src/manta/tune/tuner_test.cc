// Tuning of functions, with real processes.

#include "manta/tune/tuner.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/callback.h"
#include "manta/tune/session.h"

namespace manta::tune {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

RunConfig quiet(const TemporaryFolder& storage, const std::string& name = "e") {
  return {.name = name, .storage_path = storage.path(), .verbose = false};
}

double parabola(const Json& config) {
  double x = config.at("x");
  return (x - 1) * (x - 1);
}

TEST(TunerTest, FindsTheBestOfAGrid) {
  TemporaryFolder storage;
  Tuner tuner(parabola, {.param_space = {{"x", grid_search({-1.0, 0.5, 3.0})}},
                         .tune_config = {.metric = "loss", .mode = "min"},
                         .run_config = quiet(storage)});
  ResultGrid results = tuner.fit();
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results.num_errors(), 0u);
  EXPECT_EQ(results.num_terminated(), 3u);
  Result best = results.get_best_result();
  EXPECT_EQ(best.config, (Json{{"x", 0.5}}));
  EXPECT_EQ(best.metrics, (Json{{"loss", 0.25}}));
  EXPECT_EQ(results.get_best_result({.mode = "max"}).metrics.at("loss"), 4);
  EXPECT_EQ(results.experiment_path, storage / "e");
  // No trial had output or checkpoints.
  EXPECT_EQ(std::distance(fs::directory_iterator(storage / "e"), fs::directory_iterator()), 3)
      << "journal, settings and lock";
}

TEST(TunerTest, AFunctionReturnsSeveralMetricsOrReportsThem) {
  TemporaryFolder storage;
  Tuner several(
      [](const Json& config) {
        return Json{{"a", config.at("x")}, {"b", {{"c", 2}}}};
      },
      {.param_space = {{"x", choice({7})}}, .run_config = quiet(storage, "several")});
  EXPECT_EQ(several.fit()[0].metrics, (Json{{"a", 7}, {"b", {{"c", 2}}}}));

  Tuner reports(
      [](const Json& config) {
        for (int n = 0; n < config.at("x"); ++n) report({{"n", n}});
      },
      {.param_space = {{"x", 3}}, .run_config = quiet(storage, "reports")});
  Result result = reports.fit()[0];
  EXPECT_THAT(result.metrics_history, ElementsAre(Json{{"n", 0}}, Json{{"n", 1}}, Json{{"n", 2}}));
  EXPECT_EQ(result.outcome, RunOutcome::kFinished);
}

TEST(TunerTest, TheSameSeedGivesTheSameTrials) {
  TemporaryFolder storage;
  auto configs = [&](const std::string& name, uint64_t seed) {
    Tuner tuner(parabola, {.param_space = {{"x", uniform(0, 1)}, {"n", randint(0, 1000)}},
                           .tune_config = {.num_samples = 4, .seed = seed},
                           .run_config = quiet(storage, name)});
    std::vector<Json> all;
    for (const Result& result : tuner.fit()) all.push_back(result.config);
    return all;
  };
  auto first = configs("a", 1);
  EXPECT_EQ(first, configs("b", 1));
  EXPECT_NE(first, configs("c", 2));
}

TEST(TunerTest, ATrialThatFailsDoesNotEndTheOthers) {
  TemporaryFolder storage;
  Tuner tuner(
      [](const Json& config) -> double {
        if (config.at("x") == 1) throw std::runtime_error("one is refused");
        if (config.at("x") == 2) ::raise(SIGKILL);
        return config.at("x");
      },
      {.param_space = {{"x", grid_search({0, 1, 2, 3})}},
       .tune_config = {.metric = "y", .mode = "max"},
       .run_config = quiet(storage)});
  ResultGrid results = tuner.fit();
  EXPECT_EQ(results.num_errors(), 2u);
  EXPECT_EQ(results.num_terminated(), 2u);
  ASSERT_TRUE(results[1].error && results[2].error);
  EXPECT_EQ(results[1].error->kind(), ErrorKind::kUserCode);
  EXPECT_STREQ(results[1].error->what(), "threw std::runtime_error: one is refused");
  EXPECT_EQ(results[2].error->kind(), ErrorKind::kWorkerLost);
  EXPECT_THAT(results[2].error->what(), HasSubstr("SIGKILL"));
  EXPECT_EQ(results[2].outcome, RunOutcome::kFailed);
  EXPECT_EQ(results.get_best_result().config.at("x"), 3);
  EXPECT_EQ(results.errors().size(), 2u);
}

// A checkpoint with one file.
class Counter final : public CheckpointSource {
 public:
  explicit Counter(int n) : n_(n) {}
  void stage() override {}
  void write(CheckpointFolder& folder) override { folder.write("n", std::to_string(n_)); }

 private:
  int n_;
};

// Counts to 4, saves its position, and dies once after report 1.
void count_and_die(const Json& config) {
  Checkpoint from = get_checkpoint();
  int first = 0;
  if (from) {
    std::ifstream(from.file("n")) >> first;
    ++first;
  }
  std::ofstream(config.at("log").get<std::string>(), std::ios::app) << "from " << first << "\n";
  for (int n = first; n < 4; ++n) {
    report({{"n", n}}, std::make_shared<Counter>(n));
    if (n == 1 && tune::get_context().attempt == 0) ::raise(SIGKILL);
  }
}

TEST(TunerTest, AFailedTrialIsStartedAgainFromItsCheckpoint) {
  TemporaryFolder storage;
  RunConfig run = quiet(storage);
  run.failure_config.max_failures = 1;
  run.checkpoint_config.num_to_keep = 2;
  Tuner tuner(count_and_die,
              {.param_space = {{"log", storage / "log"}}, .run_config = std::move(run)});
  Result result = tuner.fit()[0];
  EXPECT_FALSE(result.error);
  std::vector<int> each;
  for (const Json& metrics : result.metrics_history) each.push_back(metrics.at("n"));
  EXPECT_THAT(each, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(result.checkpoint.metrics(), (Json{{"n", 3}}));
  EXPECT_EQ(result.best_checkpoints.size(), 2u);
  std::ifstream log(storage / "log");
  std::string all((std::istreambuf_iterator<char>(log)), {});
  EXPECT_EQ(all, "from 0\nfrom 2\n");
}

TEST(TunerTest, ASchedulerStopsATrial) {
  TemporaryFolder storage;
  // Runs for ever, unless it is stopped.
  Tuner tuner(
      [](const Json& config) {
        for (int n = 1;; ++n) report({{"loss", config.at("x").get<double>() * n}});
      },
      {.param_space = {{"x", grid_search({1.0, 2.0, 3.0})}},
       .tune_config = {.metric = "loss",
                       .mode = "min",
                       .max_concurrent_trials = 1,
                       .scheduler = ASHAScheduler{.max_t = 9, .reduction_factor = 3}},
       .run_config = quiet(storage)});
  ResultGrid results = tuner.fit();
  std::vector<size_t> reports;
  for (const Result& result : results) {
    EXPECT_EQ(result.outcome, RunOutcome::kStopped);
    EXPECT_FALSE(result.error);
    reports.push_back(result.metrics_history.size());
  }
  EXPECT_THAT(reports, ElementsAre(9, 1, 1));
}

TEST(TunerTest, AsManyTrialsRunAtATimeAsResourcesAllow) {
  TemporaryFolder storage;
  // Each waits until another runs, too: the test's machine has 2 CPUs.
  auto meet = [](const Json& config) {
    std::string folder = config.at("folder");
    std::ofstream(folder + "/" + tune::get_context().trial_name) << "here";
    bool met = eventually([&] {
      return std::distance(fs::directory_iterator(folder), fs::directory_iterator()) >= 2;
    });
    return met ? 1.0 : 0.0;
  };
  fs::create_directory(storage / "meeting");
  Tuner tuner(meet, {.param_space = {{"folder", storage / "meeting"}, {"n", grid_search({1, 2})}},
                     .tune_config = {.metric = "met", .mode = "max"},
                     .run_config = quiet(storage)});
  for (const Result& result : tuner.fit()) EXPECT_EQ(result.metrics.at("met"), 1);
}

TEST(TunerTest, WhatMakesNoSenseIsRefused) {
  auto refusal = [](const TuneConfig& config, const Space& space = {}) {
    return message_of([&] { Tuner(parabola, {.param_space = space, .tune_config = config}); });
  };
  EXPECT_THAT(refusal({.metric = "loss", .mode = "smallest"}),
              HasSubstr("mode must be min or max (was 'smallest')"));
  EXPECT_THAT(refusal({.metric = "loss"}), HasSubstr("mode must be min or max, as there is a"));
  EXPECT_THAT(refusal({.mode = "min"}), HasSubstr("metric must be set"));
  EXPECT_THAT(refusal({.num_samples = 0}), HasSubstr("num_samples must be at least 1 (was 0)"));
  EXPECT_THAT(refusal({.num_samples = -1}), HasSubstr("num_samples must be at least 1 (was -1)"));
  EXPECT_THAT(refusal({.max_concurrent_trials = -2}), HasSubstr("max_concurrent_trials"));
  EXPECT_THAT(refusal({.max_cpu_fraction = 1.5}), HasSubstr("max_cpu_fraction"));
  EXPECT_THAT(refusal({.scheduler = ASHAScheduler{}}), HasSubstr("set tune_config.metric"));
  EXPECT_THAT(refusal({}, {{"a", choice<Space>({{{"b", grid_search({1, 2})}}})}}),
              HasSubstr("the choice at 'a' has a grid_search in it"));
}

TEST(TunerTest, WhatOnlyTrainersKnowIsRefusedForFunctions) {
  auto refusal = [](const RunConfig& run) {
    return message_of([&] { Tuner(parabola, {.run_config = run}); });
  };
  RunConfig run;
  run.checkpoint_config.checkpoint_frequency = 2;
  EXPECT_THAT(refusal(run), HasSubstr("checkpoint_frequency is for trainers"));
  run = {};
  run.checkpoint_config.max_in_flight = 3;
  EXPECT_THAT(refusal(run), HasSubstr("max_in_flight is for trainers"));
  EXPECT_THAT(refusal({.collective_timeout = std::chrono::seconds(1)}),
              HasSubstr("collective_timeout is for trainers"));
  EXPECT_THAT(refusal({.callbacks = {std::make_shared<Callback>()}}),
              HasSubstr("callbacks is for trainers"));
  EXPECT_THAT(refusal({.folder_mode = 0600}), HasSubstr("folder_mode must be from 0700"));
  EXPECT_THAT(refusal({.storage_timeout = std::chrono::seconds(1)}),
              HasSubstr("storage_timeout is for trainers"));
  EXPECT_THAT(refusal({.storage_path = "s3:///runs"}), HasSubstr("has no bucket"));
  EXPECT_NO_THROW(Tuner(parabola, {.run_config = {.storage_path = "s3://bucket/runs",
                                                  .storage_timeout = std::chrono::seconds(1)}}));
  EXPECT_THAT(refusal({.failure_config = {.max_failures = -2}}), HasSubstr("max_failures"));
}

TEST(TunerTest, ResourcesThatCanNeverBeHadAreAnError) {
  TemporaryFolder storage;
  Tuner tuner(with_resources(parabola, {.cpus = 64}), {.run_config = quiet(storage)});
  Error error = error_of([&] { tuner.fit(); });
  EXPECT_EQ(error.kind(), ErrorKind::kResources);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("64 CPU"), HasSubstr("2 CPU")));
  EXPECT_FALSE(fs::exists(storage / "e/journal.jsonl")) << "the name is not used up";
}

TEST(TunerTest, AMetricThatWasNotReportedIsNamedWithThoseThatWere) {
  TemporaryFolder storage;
  Tuner tuner(
      [](const Json&) {
        return Json{{"acc", 1}, {"eval", {{"f1", 0.5}}}};
      },
      {.tune_config = {.metric = "loss", .mode = "min"}, .run_config = quiet(storage)});
  ResultGrid results = tuner.fit();
  EXPECT_THAT(message_of([&] { results.get_best_result(); }),
              AllOf(HasSubstr("'loss'"), HasSubstr("reported were: acc, eval/f1")));
  EXPECT_EQ(results.get_best_result({.metric = "eval/f1", .mode = "max"}).metrics.at("acc"), 1);
}

TEST(TunerTest, OutsideOfATrialThereIsNoneToReportTo) {
  EXPECT_THAT(message_of([] { report({{"a", 1}}); }), HasSubstr("only inside a trial"));
  EXPECT_THAT(message_of([] { tune::get_context(); }), HasSubstr("tune::get_context works only"));
}

TEST(TunerTest, AnExperimentThatHasEndedIsRestoredAsItIs) {
  TemporaryFolder storage;
  Tuner tuner(parabola, {.param_space = {{"x", uniform(0, 1)}},
                         .tune_config = {.metric = "loss", .mode = "min", .num_samples = 3},
                         .run_config = quiet(storage)});
  ResultGrid before = tuner.fit();
  ASSERT_TRUE(Tuner::can_restore(before.experiment_path));
  ResultGrid after = Tuner::restore(before.experiment_path, parabola).fit();
  ASSERT_EQ(after.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(after[i].config, before[i].config);
    EXPECT_EQ(after[i].metrics, before[i].metrics);
  }
  // With more samples, the first ones stay.
  ResultGrid more = Tuner::restore(before.experiment_path, parabola, {.num_samples = 5}).fit();
  ASSERT_EQ(more.size(), 5u);
  EXPECT_EQ(more[2].config, before[2].config);
  EXPECT_EQ(Tuner::restore(before.experiment_path, parabola).fit().size(), 5u);
  EXPECT_THAT(
      message_of([&] { Tuner::restore(before.experiment_path, parabola, {.num_samples = 2}); }),
      HasSubstr("num_samples may only grow (was 5, received 2)"));
  EXPECT_THAT(message_of([&] {
                Tuner::restore(before.experiment_path, parabola,
                               {.param_space = Space{{"x", uniform(0, 2)}}});
              }),
              HasSubstr("param_space is not the one"));
  EXPECT_THAT(message_of([&] { tuner.fit(); }), HasSubstr("there is a run in"));
  EXPECT_THAT(message_of([&] { Tuner::restore(storage / "none", parabola); }),
              HasSubstr("is no folder of an experiment"));
}

TEST(TunerTest, AnInterruptedExperimentSaysHowToGoOnAndDoes) {
  TemporaryFolder storage;
  // Trial 0 is quick; trial 1 waits for a file.
  auto wait = [](const Json& config) {
    std::string folder = config.at("folder");
    std::ofstream(folder + "/runs" + std::to_string(config.at("n").get<int>())) << "yes";
    if (config.at("n") == 1) eventually([&] { return fs::exists(folder + "/go"); });
    return 1.0;
  };
  Space space = {{"folder", storage.path()}, {"n", grid_search({0, 1, 2})}};
  Tuner tuner(wait, {.param_space = space,
                     .tune_config = {.metric = "y", .mode = "max", .max_concurrent_trials = 1},
                     .run_config = quiet(storage)});
  std::thread interrupt([&] {
    eventually([&] { return fs::exists(storage / "runs1"); });
    ::kill(::getpid(), SIGINT);
  });
  Error error = error_of([&] { tuner.fit(); });
  interrupt.join();
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(error.what(), HasSubstr("Tuner::restore(\"" + storage.path() + "/e\""));
  std::ofstream(storage / "go") << "go";
  fs::remove(storage / "runs0");
  ResultGrid results = Tuner::restore(storage / "e", wait).fit();
  EXPECT_EQ(results.size(), 3u);
  EXPECT_EQ(results.num_terminated(), 3u);
  EXPECT_FALSE(fs::exists(storage / "runs0")) << "what had ended was not run again";
}

TEST(TunerTest, FailedTrialsGoOnIfAsked) {
  TemporaryFolder storage;
  auto fail_without_file = [](const Json& config) -> double {
    if (!fs::exists(config.at("file").get<std::string>())) throw std::runtime_error("no file");
    return 1;
  };
  Tuner tuner(fail_without_file,
              {.param_space = {{"file", storage / "file"}}, .run_config = quiet(storage)});
  EXPECT_EQ(tuner.fit().num_errors(), 1u);
  std::ofstream(storage / "file") << "here";
  std::string path = storage / "e";
  EXPECT_EQ(Tuner::restore(path, fail_without_file).fit().num_errors(), 1u);
  EXPECT_EQ(Tuner::restore(path, fail_without_file, {.resume_errored = true}).fit().num_errors(),
            0u);
  EXPECT_EQ(Tuner::restore(path, fail_without_file).fit().num_errors(), 0u);
}

TEST(TunerTest, TheTableHasARowForEachTrial) {
  TemporaryFolder storage;
  Tuner tuner(
      [](const Json& config) -> Json {
        if (config.at("x") == 2) throw std::runtime_error("two");
        return {{"loss", 0.5}, {"eval", {{"n", config.at("x")}}}};
      },
      {.param_space = {{"x", grid_search({1, 2})}, {"net", {{"act", "relu"}, {"sizes", {1, 2}}}}},
       .run_config = quiet(storage)});
  auto table = tuner.fit().get_dataframe();
  EXPECT_EQ(table->num_rows(), 2);
  EXPECT_THAT(table->ColumnNames(),
              ElementsAre("trial", "outcome", "error", "training_iteration", "eval/n", "loss",
                          "config/net/act", "config/net/sizes", "config/x"));
  auto cell = [&](const std::string& column, int64_t row) {
    return table->GetColumnByName(column)->GetScalar(row).ValueOrDie()->ToString();
  };
  EXPECT_EQ(cell("trial", 1), "trial_00001");
  EXPECT_EQ(cell("outcome", 0), "finished");
  EXPECT_EQ(cell("outcome", 1), "failed");
  EXPECT_EQ(cell("error", 0), "null");
  EXPECT_THAT(cell("error", 1), HasSubstr("two"));
  EXPECT_EQ(cell("loss", 1), "null");
  EXPECT_EQ(cell("config/net/sizes", 0), "[1,2]");
  EXPECT_EQ(cell("config/x", 1), "2");
  EXPECT_EQ(table->GetColumnByName("loss")->type()->id(), arrow::Type::DOUBLE);
  EXPECT_EQ(table->GetColumnByName("config/x")->type()->id(), arrow::Type::INT64);
}

}  // namespace
}  // namespace manta::tune
