// Tuning of a trainer: each trial is a separate run. The trainer is of a framework that has only a
// loop, as in train/.

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/sources.h"
#include "manta/preprocess/scalers.h"
#include "manta/train/callback.h"
#include "manta/train/session.h"
#include "manta/train/training_internal.h"
#include "manta/tune/session.h"
#include "manta/tune/tuner.h"

namespace manta::tune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class ToyTrainer final : public BaseTrainer {
 public:
  struct Space {
    tune::Space config = {};
    ScalingSpace scaling_config = {};
    std::map<std::string, Tunable<Dataset>> datasets = {};
    Tunable<AnyPreprocessor> preprocessor = {};
    Tunable<double> share = {};

    template <class Visit>
    void visit(Visit&& visit) {
      visit("config", config);
      visit("scaling_config", scaling_config);
      visit("datasets", datasets);
      visit("preprocessor", preprocessor);
      visit("share", share);
    }
  };

  ToyTrainer(TrainLoop loop, const Json& config, const RunConfig& run = {}) {
    training_.trainer = "ToyTrainer";
    training_.config = config;
    training_.run = run;
    training_.scaling.resources_per_worker.cpus = 0.5;
    training_.loop = loop.function();
    training_.loop_takes_config = loop.takes_config();
  }

  ToyTrainer apply(const Space& values, const RunConfig& run) const {
    ToyTrainer other = *this;
    train::Training& training = other.training_;
    training.run = run;
    training.config = override_config(training.config, values.config);
    if (auto share = values.share.value()) training.config["share"] = *share;
    training.scaling = override_scaling(training.scaling, values.scaling_config);
    for (const auto& [name, dataset] : values.datasets)
      training.datasets.insert_or_assign(name, *dataset.value());
    if (auto preprocessor = values.preprocessor.value()) training.preprocessor = *preprocessor;
    return other;
  }
  train::Training training() const override { return training_; }

 private:
  train::Training training_;
};

// Counts to config["limit"] in steps of config["step"]; dies before report config["die_at"], once;
// throws at config["throw_at"].
void count_up(const Json& config) {
  auto context = train::get_context();
  Checkpoint from = train::get_checkpoint();
  std::string files = context.run_folder + "/mine-" + std::to_string(context.world_rank);
  fs::create_directories(files);
  int first = from ? from.metrics().at("n").get<int>() + 1 : 0;
  for (int n = first; n < config.at("limit"); ++n) {
    if (config.value("die_at", -1) == n && context.attempt == 0) ::raise(SIGKILL);
    if (config.value("throw_at", -1) == n) throw std::runtime_error("it does not like this");
    std::ofstream(files + "/state-" + std::to_string(context.world_rank)) << n;
    train::report({{"n", n},
                   {"sum", n * config.value("step", 1.0)},
                   {"workers", context.world_size},
                   {"name", tune::get_context().trial_name},
                   {"share", config.value("share", 0.0)}},
                  files);
  }
}

RunConfig quiet_run(const TemporaryFolder& storage) {
  return {.name = "e", .storage_path = storage.path(), .verbose = false};
}

TEST(ToyTrainerTunerTest, EachTrialIsARunWithItsOwnOptions) {
  TemporaryFolder storage;
  ToyTrainer trainer(count_up, {{"limit", 3}, {"step", 5}});
  Tuner tuner(trainer, {.param_space = {.config = {{"step", grid_search({1, 2})}},
                                        .scaling_config = {.num_workers = grid_search({1, 2})},
                                        .share = uniform(0.5, 1)},
                        .tune_config = {.metric = "sum", .mode = "max"},
                        .run_config = quiet_run(storage)});
  ResultGrid results = tuner.fit();
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results.num_errors(), 0u) << results.errors().front().what();
  for (const Result& result : results) {
    EXPECT_EQ(result.metrics.at("sum"), 2 * result.config.at("config").at("step").get<int>());
    EXPECT_EQ(result.metrics.at("workers"), result.config.at("scaling_config").at("num_workers"));
    EXPECT_EQ(result.metrics.at("share"), result.config.at("share"));
    EXPECT_EQ(result.metrics_history.size(), 3u);
    EXPECT_EQ(result.checkpoint.metrics().at("n"), 2);
    EXPECT_EQ(result.path, storage / ("e/" + result.metrics.at("name").get<std::string>()));
  }
  EXPECT_EQ(results[3].metrics.at("name"), "trial_00003");
  EXPECT_EQ(results.get_best_result().config.at("config").at("step"), 2);
  EXPECT_EQ(trainer.training().config, (Json{{"limit", 3}, {"step", 5}})) << "is as it was";
}

TEST(ToyTrainerTunerTest, ObjectsAreChosenByTheirPlace) {
  TemporaryFolder storage;
  Dataset rows = data::from_items({{{"x", 1.0}}, {{"x", 3.0}}});
  auto count = [](const Json&) {
    int64_t rows = 0;
    for (const auto& batch : train::get_dataset_shard("train").iter_batches({.batch_size = 10}))
      rows += batch->num_rows();
    train::report({{"rows", rows}});
  };
  ToyTrainer trainer(count, {});
  ToyTrainer::Space space = {
      .datasets = {{"train", grid_search({rows, rows.filter(col("x") > 2)})}},
      .preprocessor = grid_search(StandardScaler({"x"}), MinMaxScaler({"x"}))};
  Tuner tuner(trainer, {.param_space = space, .run_config = quiet_run(storage)});
  ResultGrid results = tuner.fit();
  ASSERT_EQ(results.size(), 4u);
  ASSERT_EQ(results.num_errors(), 0u) << results.errors().front().what();
  std::vector<std::string> seen;
  for (const Result& result : results)
    seen.push_back(result.config.at("preprocessor").get<std::string>() + " " +
                   result.config.at("datasets").at("train").get<std::string>() + " " +
                   result.metrics.at("rows").dump());
  EXPECT_THAT(seen, ElementsAre("StandardScaler(x) data set 0 2", "MinMaxScaler(x) data set 0 2",
                                "StandardScaler(x) data set 1 1", "MinMaxScaler(x) data set 1 1"));
  // They are not stored.
  EXPECT_THAT(message_of([&] { Tuner::restore(storage / "e", trainer); }),
              HasSubstr("param_space.datasets holds objects"));
  EXPECT_EQ(Tuner::restore(storage / "e", trainer, {.param_space = space}).fit().size(), 4u);
}

TEST(ToyTrainerTunerTest, ARunThatFailsIsStartedAgainOrIsAnError) {
  TemporaryFolder storage;
  RunConfig run = quiet_run(storage);
  run.failure_config.max_failures = 1;
  ToyTrainer trainer(count_up, {{"limit", 4}}, run);
  Tuner trials(trainer,
               {.param_space = {.config = grid_search<Space>(
                                    {{{"die_at", 2}}, {{"throw_at", 3}}, {{"limit", 2}}})}});
  ResultGrid results = trials.fit();
  ASSERT_EQ(results.size(), 3u);
  EXPECT_FALSE(results[0].error) << results[0].error->what();
  EXPECT_EQ(results[0].metrics.at("n"), 3);
  EXPECT_EQ(results[0].metrics_history.size(), 4u);
  ASSERT_TRUE(results[1].error);
  EXPECT_THAT(results[1].error->what(), HasSubstr("it does not like this"));
  EXPECT_EQ(results[1].metrics.at("n"), 2);
  EXPECT_FALSE(results[2].error);
  EXPECT_EQ(results.experiment_path, storage / "e") << "of the trainer's own run_config";
}

TEST(ToyTrainerTunerTest, WhatThereIsNeverEnoughOfIsAnErrorOfTheTrial) {
  TemporaryFolder storage;
  ToyTrainer trainer(count_up, {{"limit", 1}});
  Tuner tuner(trainer,
              {.param_space = {.scaling_config = {.num_workers = grid_search({1, 100, 0})}},
               .run_config = quiet_run(storage)});
  ResultGrid results = tuner.fit();
  EXPECT_FALSE(results[0].error);
  ASSERT_TRUE(results[1].error && results[2].error);
  EXPECT_EQ(results[1].error->kind(), ErrorKind::kResources);
  EXPECT_THAT(results[1].error->what(), HasSubstr("100 workers"));
  EXPECT_THAT(results[2].error->what(), HasSubstr("num_workers = 0 runs the loop in this process"));
}

TEST(ToyTrainerTunerTest, ASchedulerStopsRuns) {
  TemporaryFolder storage;
  ToyTrainer trainer(count_up, {{"limit", 1000}});
  Tuner tuner(
      trainer,
      {.param_space = {.config = {{"step", grid_search({2, 1})}}},
       .tune_config = {.metric = "sum",
                       .mode = "max",
                       .max_concurrent_trials = 1,
                       .scheduler =
                           ASHAScheduler{.max_t = 4, .grace_period = 2, .reduction_factor = 2}},
       .run_config = quiet_run(storage)});
  ResultGrid results = tuner.fit();
  EXPECT_EQ(results[0].metrics_history.size(), 4u);
  EXPECT_EQ(results[0].outcome, RunOutcome::kStopped);
  EXPECT_EQ(results[1].metrics_history.size(), 2u);
  EXPECT_EQ(results.num_errors(), 0u);
}

// Counts its calls.
class CountReports final : public Callback {
 public:
  Decision on_report(const RunInfo&, const ReportRecord&) override {
    ++reports;
    return Decision::go_on();
  }
  std::atomic<int> reports = 0;
};

TEST(ToyTrainerTunerTest, CallbacksHearOfAllTrialsAndAreGivenAgain) {
  TemporaryFolder storage;
  auto callback = std::make_shared<CountReports>();
  ToyTrainer trainer(count_up, {{"limit", 2}});
  RunConfig run = quiet_run(storage);
  run.callbacks = {callback};
  Tuner(trainer, {.param_space = {.share = uniform(0, 1)},
                  .tune_config = {.num_samples = 2},
                  .run_config = run})
      .fit();
  EXPECT_EQ(callback->reports, 4);
  testing::internal::CaptureStderr();
  Tuner::restore(storage / "e", trainer, {.num_samples = 3}).fit();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("had callbacks, which are not"));
  Tuner::restore(storage / "e", trainer, {.num_samples = 4, .callbacks = {callback}}).fit();
  EXPECT_EQ(callback->reports, 6);
}

int threads_of_this_process() {
  return static_cast<int>(
      std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()));
}

TEST(ToyTrainerTunerTest, LeavesNoThreads) {
  TemporaryFolder storage;
  auto tune_many = [&](const std::string& name, int samples) {
    RunConfig run = quiet_run(storage);
    run.name = name;
    Tuner tuner(ToyTrainer(count_up, {{"limit", 1}}),
                {.tune_config = {.num_samples = samples}, .run_config = run});
    EXPECT_EQ(tuner.fit().num_terminated(), static_cast<size_t>(samples));
  };
  tune_many("first", 1);  // makes what is made only once
  int before = threads_of_this_process();
  tune_many("many", 10);
  EXPECT_TRUE(eventually([&] { return threads_of_this_process() <= before; }));
}

void wait_or_count(const Json& config) {
  std::string go = config.at("go");
  train::report({{"n", 0}});
  std::ofstream(train::get_context().run_folder + "/begun") << "yes";
  eventually([&] { return fs::exists(go); });
  train::report({{"n", 1}});
}

TEST(ToyTrainerTunerTest, AnInterruptedExperimentGoesOn) {
  TemporaryFolder storage;
  ToyTrainer trainer(wait_or_count, {{"go", storage / "go"}});
  Tuner tuner(trainer, {.param_space = {.share = uniform(0, 1)},
                        .tune_config = {.num_samples = 2},
                        .run_config = quiet_run(storage)});
  std::thread interrupt([&] {
    eventually([&] {
      return fs::exists(storage / "e/trial_00000/begun") &&
             fs::exists(storage / "e/trial_00001/begun");
    });
    ::kill(::getpid(), SIGINT);
  });
  Error error = error_of([&] { tuner.fit(); });
  interrupt.join();
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  std::ofstream(storage / "go") << "go";
  ResultGrid results = Tuner::restore(storage / "e", trainer).fit();
  ASSERT_EQ(results.size(), 2u);
  for (const Result& result : results) {
    EXPECT_EQ(result.metrics.at("n"), 1);
    EXPECT_EQ(result.metrics_history.size(), 2u);
  }
}

}  // namespace
}  // namespace manta::tune
