// Experiments whose storage_path is an address, against a real server of S3. tests/tuning_test.cc
// kills their drivers.

#include <gmock/gmock.h>
#include <signal.h>

#include <future>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/train/remote_storage_fixture_internal.h"
#include "manta/tune/session.h"
#include "manta/tune/tuner.h"

namespace manta::tune {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using train::read_text;
namespace fs = std::filesystem;

class Number final : public CheckpointSource {
 public:
  explicit Number(int n) : n_(n) {}
  void stage() override {}
  void write(CheckpointFolder& folder) override { folder.write("state", std::to_string(n_)); }

 private:
  int n_;
};

// Counts to config["limit"], and reports each number with a checkpoint that holds it. After report
// "wait_at", trial "waits" waits for the file "gate". Adds a line to "log" for each start.
void count(const Json& config) {
  TrialContext trial = tune::get_context();
  Checkpoint from = tune::get_checkpoint();
  int first = from ? std::stoi(read_text(from.file("state"))) + 1 : 0;
  if (config.contains("log"))
    std::ofstream(config["log"].get<std::string>(), std::ios::app)
        << trial.trial_name << " from " << first << "\n";
  for (int n = first; n < config.at("limit"); ++n) {
    tune::report({{"n", n}, {"score", n * config.at("x").get<int>()}}, std::make_shared<Number>(n));
    if (config.value("wait_at", -1) == n && trial.trial_name == config.value("waits", ""))
      eventually([&] { return fs::exists(config["gate"].get<std::string>()); });
  }
  std::ofstream(trial.folder + "/notes.txt") << trial.trial_name;
}

DataParallelTrainer count_trainer(const Json& config = Json::object()) {
  return DataParallelTrainer({.train_loop_per_worker = count,
                              .train_loop_config = config,
                              .scaling_config = {.resources_per_worker = {.cpus = 0.2}}});
}

Trainable count_function() { return with_resources(count, {.cpus = 0.2}); }

/// Experiments of functions and of trainers.
class RemoteExperimentTest : public train::RemoteStorageTest,
                             public testing::WithParamInterface<const char*> {
 protected:
  bool is_function() const { return std::string(GetParam()) == "function"; }
  std::string place(const std::string& name = "") const {
    return server_.address("runs/e" + (name.empty() ? "" : "/" + name));
  }
  RunConfig run_config() const {
    return {.name = "e", .storage_path = server_.address("runs"), .verbose = 0};
  }
  TuneConfig tune_config() const { return {.metric = "score", .mode = "max"}; }
  Json config(const Json& more = Json::object()) const {
    Json config = {{"limit", 3}, {"x", 0}, {"log", gates_ / "log"}};
    config.update(more);
    return config;
  }
  Space space(const Json& config) const {
    return {{"limit", config.at("limit")},
            {"x", grid_search({1, 2, 3})},
            {"log", config.at("log")},
            {"wait_at", config.value("wait_at", -1)},
            {"waits", config.value("waits", "")},
            {"gate", config.value("gate", "")}};
  }
  // Not yet started.
  Tuner tuner(const RunConfig& run, const Json& config) const {
    if (is_function())
      return Tuner(count_function(),
                   {.param_space = space(config), .tune_config = tune_config(), .run_config = run});
    return Tuner(count_trainer(config),
                 {.param_space = {.train_loop_config = {{"x", grid_search({1, 2, 3})}}},
                  .tune_config = tune_config(),
                  .run_config = run});
  }
  Tuner restored(const std::string& path, const Json& config) const {
    if (is_function()) return Tuner::restore(path, count_function());
    return Tuner::restore(path, count_trainer(config));
  }
  bool stored(const std::string& name) const {
    return look_at(address("runs/e/" + name)).kind == RemoteEntry::kFile;
  }
  std::set<std::string> all_stored() const {
    std::set<std::string> names;
    for (const auto& file : list_files_below(address("runs/e")))
      names.insert(file.address.path.substr(std::string("runs/e/").size()));
    return names;
  }
  // Checks the results of the three trials, which can be read on a machine without their files.
  void expect_all(const ResultGrid& results, int limit = 3, size_t kept = 3) const {
    EXPECT_EQ(results.experiment_path, place());
    ASSERT_EQ(results.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const Result& result = results[i];
      ASSERT_FALSE(result.error) << result.error->what();
      EXPECT_EQ(result.outcome, RunOutcome::kFinished);
      EXPECT_EQ(result.path, place(str("trial_0000", i)));
      EXPECT_EQ(numbers(result).size(), static_cast<size_t>(limit));
      EXPECT_EQ(result.metrics.at("n"), limit - 1);
      EXPECT_EQ(result.best_checkpoints.size(), kept);
      EXPECT_EQ(result.checkpoint.uri(),
                place(str("trial_0000", i, "/checkpoint_00000", limit - 1)));
      EXPECT_EQ(read_text(result.checkpoint.file("state")), std::to_string(limit - 1));
    }
    EXPECT_EQ(results.get_best_result().metrics.at("score"), 3 * (limit - 1));
  }
  // Whether one trial has come to its gate, and the other two have ended.
  bool one_waits() const {
    return stored("trial_00000/checkpoint_000003/manifest.json") &&
           stored("trial_00001/checkpoint_000001/manifest.json") &&
           stored("trial_00002/checkpoint_000003/manifest.json");
  }
  std::string log() const { return read_text(gates_ / "log"); }
  // The experiment's own spool: the runs of trainers have one each.
  std::string experiment_spool() const {
    for (const std::string& spool : spools(home_))
      if (fs::exists(spool + "/e")) return spool;
    ADD_FAILURE() << "the experiment has no spool";
    return "";
  }
};

INSTANTIATE_TEST_SUITE_P(Of, RemoteExperimentTest, testing::Values("function", "trainer"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RemoteExperimentTest, EverythingIsAtTheAddress) {
  RunConfig run = run_config();
  run.checkpoint_config.num_to_keep = 2;
  Tuner first = tuner(run, config());
  EXPECT_FALSE(Tuner::can_restore(place()));
  expect_all(first.fit(), 3, 2);
  EXPECT_THAT(spools(home_), ElementsAre());
  auto names = all_stored();
  EXPECT_THAT(
      names,
      IsSupersetOf({"owner.json", "experiment.json", "trial_00000/checkpoint_000002/manifest.json",
                    "trial_00002/checkpoint_000001/state", "trial_00001/notes.txt"}));
  for (const std::string& name : names)
    EXPECT_THAT(name, AllOf(Not(HasSubstr("checkpoint_000000")), Not(HasSubstr(".staging")),
                            Not(HasSubstr(".upload")), Not(HasSubstr(".lock"))));
  EXPECT_EQ(stored("trial_00000/owner.json"), !is_function());
  EXPECT_EQ(BaseTrainer::can_restore(place("trial_00000")), !is_function());
  EXPECT_FALSE(BaseTrainer::can_restore(place()));

  // Where there is nothing of it.
  TemporaryFolder other;
  set_home(other);
  EXPECT_TRUE(Tuner::can_restore(place()));
  std::string before = log();
  expect_all(restored(place(), config()).fit(), 3, 2);
  EXPECT_EQ(log(), before);  // no trial was started
  EXPECT_THAT(spools(other), ElementsAre());

  Error error = error_of([&] { first.fit(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("there is an experiment at '" + place()),
                                  HasSubstr("RunConfig::name")));
  EXPECT_THAT(spools(other), ElementsAre());
}

TEST_P(RemoteExperimentTest, WhatIsWrongWithTheStoreIsSaidAtTheStart) {
  auto refused = [&](const std::string& storage, ErrorKind kind) {
    RunConfig run = run_config();
    run.storage_path = storage;
    Error error = error_of([&] { tuner(run, config()).fit(); });
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(spools(home_), ElementsAre());
    return std::string(error.what());
  };
  EXPECT_THAT(refused(server_.address("runs", "none"), ErrorKind::kNotFound),
              HasSubstr("make the bucket"));
  EXPECT_THAT(refused("s3:///runs", ErrorKind::kInvalidArgument), HasSubstr("no bucket"));
  EXPECT_THAT(refused("s4://bucket/runs", ErrorKind::kInvalidArgument), HasSubstr("s4"));
  RunConfig run = run_config();
  run.storage_timeout = std::chrono::milliseconds(0);
  EXPECT_THAT(message_of([&] { tuner(run, config()); }), HasSubstr("storage_timeout"));
  Error error = error_of([&] { restored(place(), config()); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("there is no experiment at '" + place()));
  server_.go_down();
  refused(server_.address("runs"), ErrorKind::kIo);
  EXPECT_EQ(error_of([&] { restored(place(), config()); }).kind(), ErrorKind::kIo);
}

TEST_P(RemoteExperimentTest, AnInterruptedOneGoesOnOnAnotherMachine) {
  Json waiting =
      config({{"limit", 4}, {"wait_at", 1}, {"waits", "trial_00001"}, {"gate", gates_ / "gate"}});
  std::thread interrupt([&] {
    EXPECT_TRUE(eventually([&] { return stored("trial_00001/checkpoint_000001/manifest.json"); }));
    ::kill(::getpid(), SIGINT);
  });
  RunConfig run = run_config();
  Error error = error_of([&] {
    TuneConfig one_by_one = tune_config();
    one_by_one.max_concurrent_trials = 1;
    if (is_function()) {
      Tuner(count_function(),
            {.param_space = space(waiting), .tune_config = one_by_one, .run_config = run})
          .fit();
    } else {
      Tuner(count_trainer(waiting),
            {.param_space = {.train_loop_config = {{"x", grid_search({1, 2, 3})}}},
             .tune_config = one_by_one,
             .run_config = run})
          .fit();
    }
  });
  interrupt.join();
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled) << error.what();
  EXPECT_THAT(error.what(), HasSubstr("Tuner::restore(\"" + place() + "\", ...)"));
  EXPECT_THAT(spools(home_), ElementsAre());
  TemporaryFolder other;
  set_home(other);
  std::ofstream(gates_ / "gate") << "open";
  expect_all(restored(place(), waiting).fit(), 4, 4);
  EXPECT_EQ(log(),
            "trial_00000 from 0\ntrial_00001 from 0\ntrial_00001 from 2\ntrial_00002 from 0\n");
  EXPECT_THAT(spools(other), ElementsAre());
}

TEST_P(RemoteExperimentTest, ADriverThatWasSupersededEnds) {
  Json waiting =
      config({{"limit", 4}, {"wait_at", 1}, {"waits", "trial_00001"}, {"gate", gates_ / "gate"}});
  auto first = std::async(std::launch::async, [&] { tuner(run_config(), waiting).fit(); });
  ASSERT_TRUE(eventually([&] { return one_waits(); }));
  Json open = waiting;
  open["waits"] = "none";
  std::string spool = experiment_spool();
  TemporaryFolder other;
  auto second = [&] {
    if (!is_function()) return restored(place(), open).fit();
    // A function's parameters are stored, so the gate must open only for the second driver.
    return Tuner::restore(place(), with_resources(
                                       [](const Json& config) {
                                         Json own = config;
                                         own["waits"] = "none";
                                         count(own);
                                       },
                                       {.cpus = 0.2}))
        .fit();
  };
  expect_all(second(), 4, 4);
  auto names = all_stored();
  std::ofstream(gates_ / "gate") << "open";
  Error error = error_of([&] { first.get(); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("this driver may not write to the experiment at '" + place()),
                    HasSubstr(str("process ", ::getpid(), " on ")), HasSubstr("taken it over")));
  EXPECT_EQ(all_stored(), names);
  EXPECT_TRUE(fs::exists(spool));
}

TEST_P(RemoteExperimentTest, AStoreThatIsAwayForAWhileLosesNothing) {
  Json waiting =
      config({{"limit", 4}, {"wait_at", 1}, {"waits", "trial_00001"}, {"gate", gates_ / "gate"}});
  train::StderrFile errors;
  auto results = std::async(std::launch::async, [&] { return tuner(run_config(), waiting).fit(); });
  ASSERT_TRUE(eventually([&] { return one_waits(); }));
  std::string spool = experiment_spool();
  server_.go_down();
  std::ofstream(gates_ / "gate") << "open";
  // Everything is done, except what must wait until the run of a trial is stored.
  std::string journal = spool + "/e/journal.jsonl";
  ASSERT_TRUE(eventually([&] {
    return is_function() ? read_text(journal).find("experiment_ended") != std::string::npos
                         : errors.has("cannot be stored at");
  }));
  server_.come_back();
  expect_all(results.get(), 4, 4);
  EXPECT_THAT(spools(home_), ElementsAre());
}

// If a trainer's trial cannot be stored, the trial has failed; with functions, the experiment has.
using RemoteExperimentOfFunctionsTest = RemoteExperimentTest;
INSTANTIATE_TEST_SUITE_P(Of, RemoteExperimentOfFunctionsTest, testing::Values("function"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RemoteExperimentOfFunctionsTest, WhatIsNotStoredAtTheEndIsSaidAndStoredLater) {
  RunConfig run = run_config();
  run.storage_timeout = std::chrono::milliseconds(300);
  server_.tell("/-/refuse?match=PUT.*/trial_00001/checkpoint_000002/&skip=0&times=1000000");
  Error error = error_of([&] { tuner(run, config()).fit(); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  ASSERT_EQ(spools(home_).size(), 1u);
  std::string folder = spools(home_).front() + "/e";
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("the experiment has ended, but not all of it is stored"),
                    HasSubstr("trial_00001/checkpoint_000002"), HasSubstr(folder)));
  EXPECT_FALSE(stored("trial_00001/checkpoint_000002/manifest.json"));
  // What the store's journal says is true of the store's files.
  for (const std::string& name : all_stored()) {
    if (!name.ends_with(".jsonl")) continue;
    EXPECT_THAT(read_remote(address("runs/e/" + name), 1 << 20),
                Not(HasSubstr("experiment_ended")));
  }
  server_.tell("/-/refuse?match=&skip=0&times=0");
  std::string before = log();
  // The next driver has more patience.
  auto patient = [&](const std::string& path, std::chrono::milliseconds timeout) {
    return Tuner::restore(path, count_function(), {.storage_timeout = timeout});
  };
  EXPECT_THAT(message_of([&] { patient(folder, std::chrono::milliseconds(-1)); }),
              HasSubstr("storage_timeout must be from 1 ms"));
  expect_all(patient(folder, std::chrono::minutes(5)).fit());
  EXPECT_EQ(log(), before);
  EXPECT_THAT(spools(home_), ElementsAre());
  expect_all(restored(place(), config()).fit());
}

// Counts to 3, and fails once, after the first report; only with a checkpoint if "keeps".
void fail_once(const Json& config) {
  TrialContext trial = tune::get_context();
  Checkpoint from = tune::get_checkpoint();
  for (int n = from ? 1 : 0; n < 3; ++n) {
    tune::report({{"n", n}, {"begun", from ? 1 : 0}},
                 config.at("keeps") == 1 ? std::make_shared<Number>(n) : nullptr);
    if (trial.attempt > 0) continue;
    std::ofstream(config.at("log").get<std::string>(), std::ios::app) << trial.trial_name << "\n";
    eventually([&] { return fs::exists(config.at("gate").get<std::string>()); });
    throw std::runtime_error("once");
  }
}

TEST_P(RemoteExperimentOfFunctionsTest, ATrialIsStartedAgainWhileTheStoreIsAway) {
  RunConfig run = run_config();
  run.failure_config.max_failures = 1;
  Space space = {
      {"keeps", grid_search({0, 1})}, {"log", gates_ / "log"}, {"gate", gates_ / "gate"}};
  auto results = std::async(std::launch::async, [&] {
    return Tuner(with_resources(fail_once, {.cpus = 0.2}),
                 {.param_space = space, .run_config = run})
        .fit();
  });
  ASSERT_TRUE(eventually([&] { return fs::exists(gates_ / "log") && log().size() == 24; }));
  std::string journal = spools(home_).front() + "/e/journal.jsonl";
  server_.go_down();
  std::ofstream(gates_ / "gate") << "open";
  ASSERT_TRUE(
      eventually([&] { return read_text(journal).find("experiment_ended") != std::string::npos; }));
  server_.come_back();
  ResultGrid grid = results.get();
  ASSERT_EQ(grid.num_errors(), 0u) << grid.errors().front().what();
  EXPECT_EQ(grid[0].metrics.at("begun"), 0);
  EXPECT_EQ(grid[0].path, "");  // it has no files there
  EXPECT_EQ(grid[1].metrics.at("begun"), 1);
  EXPECT_EQ(read_text(grid[1].checkpoint.file("state")), "2");
}

using RemoteExperimentOfTrainersTest = RemoteExperimentTest;
INSTANTIATE_TEST_SUITE_P(Of, RemoteExperimentOfTrainersTest, testing::Values("trainer"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RemoteExperimentOfTrainersTest, ATrialThatCannotBeStoredHasFailedAndMayGoOn) {
  RunConfig run = run_config();
  // Longer than the mirror's intervals: finding nothing to store does not count as progress.
  run.storage_timeout = std::chrono::seconds(12);
  server_.tell("/-/refuse?match=PUT.*/trial_00001/checkpoint_000002/&skip=0&times=1000000");
  ResultGrid results = tuner(run, config()).fit();
  ASSERT_EQ(results.num_errors(), 1u);
  ASSERT_TRUE(results[1].error);
  EXPECT_EQ(results[1].error->kind(), ErrorKind::kIo);
  EXPECT_THAT(results[1].error->what(), HasSubstr("not all of it is stored"));
  EXPECT_EQ(read_text(results[1].checkpoint.file("state")), "1");  // what the store has
  server_.tell("/-/refuse?match=&skip=0&times=0");
  expect_all(Tuner::restore(place(), count_trainer(config()), {.resume_errored = true}).fit());
}

}  // namespace
}  // namespace manta::tune
