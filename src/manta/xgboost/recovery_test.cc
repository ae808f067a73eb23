// A run that loses a worker ends with the same model as a run that lost none.

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/train/callback.h"
#include "manta/train/session.h"
#include "manta/train/training_internal.h"
#include "manta/xgboost/boosting_internal.h"
#include "manta/xgboost/xgboost_fixture_internal.h"
#include "manta/xgboost/xgboost_predictor.h"

namespace manta {
namespace {

using testing::HasSubstr;

std::string pid_file(const std::string& run_folder, int rank) {
  return run_folder + "/pid-" + std::to_string(rank);
}

// The loop of the trainer, in a process that the test can find.
void boost_where_it_is_known(const Json& config) {
  auto context = train::get_context();
  std::ofstream(pid_file(context.run_folder, context.world_rank)) << ::getpid();
  xgboost::boost(config);
}

// Sends a worker a signal once, after a report.
class Signaller final : public Callback {
 public:
  Signaller(int rank, int signal, int64_t after) : rank_(rank), signal_(signal), after_(after) {}
  Decision on_report(const RunInfo& run, const ReportRecord& report) override {
    if (report.index != after_ || std::exchange(sent_, true)) return {};
    pid_t pid = 0;
    std::ifstream(pid_file(run.path, rank_)) >> pid;
    EXPECT_EQ(::kill(pid, signal_), 0);
    return {};
  }
  void on_failure(const RunInfo&, const RunFailure& failure) override {
    failures.push_back(failure.message);
  }
  std::vector<std::string> failures;

 private:
  const int rank_, signal_;
  const int64_t after_;
  bool sent_ = false;
};

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class XGBoostRecovery : public testing::Test {
 protected:
  // Random choices, a shuffle by epoch, and metrics that need all workers. When the driver has
  // committed the tenth of kRounds rounds, some are still to come: workers are at most 64 ahead.
  static constexpr int kRounds = 100;
  XGBoostTrainerOptions options(int rounds) {
    auto options = runs_.options(2, {{"train", train_}, {"valid", valid_}});
    options.params["subsample"] = 0.7;
    options.params["colsample_bytree"] = 0.5;
    options.num_boost_round = rounds;
    options.run_config.checkpoint_config.checkpoint_frequency = 4;
    return options;
  }
  Result fit(const XGBoostTrainerOptions& options) {
    auto training = XGBoostTrainer(options).training();
    training.loop = detail::make_function(&boost_where_it_is_known);
    return train::run_training(training);
  }

  XGBoostRuns runs_;
  const Dataset train_ = breast_cancer().window_shuffle({.seed = 3});
  const Dataset valid_ = breast_cancer().filter(col("mean radius") > 14);
};

TEST_F(XGBoostRecovery, AKilledWorkerCostsNothingButTime) {
  Result undisturbed = fit(options(kRounds));
  std::string expected = bytes_of(undisturbed.checkpoint.file("model.ubj"));
  ASSERT_GT(expected.size(), 1000u);
  for (int rank : {0, 1}) {
    auto disturbed = options(kRounds);
    auto killer = std::make_shared<Signaller>(rank, SIGKILL, 9);
    disturbed.run_config.failure_config.max_failures = 1;
    disturbed.run_config.callbacks = {killer};
    Result result = fit(disturbed);
    ASSERT_EQ(killer->failures.size(), 1u);
    EXPECT_THAT(killer->failures[0], HasSubstr("SIGKILL")) << "and not what it does to others";
    EXPECT_EQ(bytes_of(result.checkpoint.file("model.ubj")), expected) << "rank " << rank;
    EXPECT_EQ(result.metrics_history, undisturbed.metrics_history);
    EXPECT_EQ(result.rows, undisturbed.rows);
  }
}

// Presses Ctrl-C, after a report.
class CtrlC final : public Callback {
 public:
  Decision on_report(const RunInfo&, const ReportRecord& report) override {
    if (report.index == 9) ::kill(::getpid(), SIGINT);
    return {};
  }
};

// Before its end, the run's only checkpoint is that of the round in which it was stopped.
TEST_F(XGBoostRecovery, ARunThatIsStoppedLeavesACheckpoint) {
  Result undisturbed = fit(options(kRounds));
  auto stopped = options(kRounds);
  stopped.run_config.checkpoint_config.checkpoint_frequency = 0;
  stopped.run_config.callbacks = {std::make_shared<CtrlC>()};
  EXPECT_EQ(error_of([&] { fit(stopped); }).kind(), ErrorKind::kCancelled);
  std::string path = runs_.path() + "/" + stopped.run_config.name;
  auto restored = XGBoostTrainer::restore(path, {.run_config = RunConfig{.verbose = false}});
  Result result = restored.fit();
  EXPECT_EQ(bytes_of(result.checkpoint.file("model.ubj")),
            bytes_of(undisturbed.checkpoint.file("model.ubj")));
  EXPECT_EQ(result.metrics_history, undisturbed.metrics_history);
  EXPECT_EQ(result.best_checkpoints.size(), 2u);
}

TEST_F(XGBoostRecovery, ARunIsRestored) {
  Result undisturbed = fit(options(kRounds));
  auto disturbed = options(kRounds);
  disturbed.run_config.callbacks = {std::make_shared<Signaller>(1, SIGKILL, 9)};
  EXPECT_EQ(error_of([&] { fit(disturbed); }).kind(), ErrorKind::kWorkerLost);
  std::string path = runs_.path() + "/" + disturbed.run_config.name;
  ASSERT_TRUE(BaseTrainer::can_restore(path));
  auto restored = XGBoostTrainer::restore(path, {.run_config = RunConfig{.verbose = false}});
  EXPECT_EQ(restored.options().num_boost_round, kRounds);
  Result result = restored.fit();
  EXPECT_EQ(bytes_of(result.checkpoint.file("model.ubj")),
            bytes_of(undisturbed.checkpoint.file("model.ubj")));
  EXPECT_EQ(result.metrics_history, undisturbed.metrics_history);
}

TEST_F(XGBoostRecovery, AModelIsTrainedFurther) {
  Result all = fit(options(20)), some = fit(options(8));
  auto more = options(20);
  more.resume_from_checkpoint = some.checkpoint;
  Result result = fit(more);
  EXPECT_EQ(result.metrics_history.size(), 12u);
  EXPECT_EQ(bytes_of(result.checkpoint.file("model.ubj")),
            bytes_of(all.checkpoint.file("model.ubj")));
}

TEST_F(XGBoostRecovery, RandomChoicesGoOnAsIfTheyHadNotStopped) {
  const std::vector<Json> choices = {{{"subsample", 0.7}},
                                     {{"subsample", 0.7}, {"num_parallel_tree", 3}},
                                     {{"colsample_bynode", 0.5}},
                                     {{"booster", "dart"}, {"rate_drop", 0.3}},
                                     {{"booster", "dart"}, {"rate_drop", 0.3}, {"subsample", 0.7}}};
  for (const Json& params : choices) {
    auto of_rounds = [&](int rounds) {
      auto some = options(rounds);
      for (const char* name : {"subsample", "colsample_bytree"}) some.params.erase(name);
      some.params.update(params);
      return some;
    };
    Result all = fit(of_rounds(20)), some = fit(of_rounds(8));
    auto more = of_rounds(20);
    more.resume_from_checkpoint = some.checkpoint;
    EXPECT_EQ(bytes_of(fit(more).checkpoint.file("model.ubj")),
              bytes_of(all.checkpoint.file("model.ubj")))
        << params;
  }
}

// The library waits for a stopped worker for the run's collective_timeout.
TEST_F(XGBoostRecovery, AStoppedWorkerEndsTheRun) {
  auto disturbed = options(1000);
  auto stopper = std::make_shared<Signaller>(1, SIGSTOP, 3);
  disturbed.run_config.callbacks = {stopper};
  disturbed.run_config.collective_timeout = std::chrono::seconds(2);
  Error error = error_of([&] { fit(disturbed); });
  EXPECT_TRUE(error.kind() == ErrorKind::kWorkerLost || error.kind() == ErrorKind::kTimeout)
      << error.what();
}

TEST_F(XGBoostRecovery, CheckpointsComeWhenTheyAreDue) {
  auto count = [&](int frequency, std::optional<bool> at_end) {
    auto some = options(10);
    some.run_config.checkpoint_config.checkpoint_frequency = frequency;
    some.run_config.checkpoint_config.checkpoint_at_end = at_end;
    return fit(some).best_checkpoints.size();
  };
  EXPECT_EQ(count(0, {}), 1u);
  EXPECT_EQ(count(0, false), 0u);
  EXPECT_EQ(count(4, {}), 3u);
  EXPECT_EQ(count(4, false), 2u);
  EXPECT_EQ(count(5, false), 1u) << "the last round is the end";
}

}  // namespace
}  // namespace manta
