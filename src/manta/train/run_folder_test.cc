#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/result_files_internal.h"
#include "manta/train/run_folder_internal.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

Note attempt_started(int attempt, int64_t next_report) {
  Json from = next_report > 0 ? Json(next_report - 1) : Json();
  return {kAttemptStarted, {{"checkpoint", from}, {"next_report", next_report}}, attempt};
}

// The lines of result.json without times.
std::vector<std::string> results_in(const std::string& folder) {
  std::vector<std::string> lines;
  std::ifstream file(folder + "/result.json");
  for (std::string line; std::getline(file, line);) {
    Json json = Json::parse(line);
    EXPECT_TRUE(json["timestamp"].is_number_integer() && json["time_total_s"].is_number());
    json.erase("timestamp");
    json.erase("time_total_s");
    lines.push_back(json.dump());
  }
  return lines;
}

// The rows of progress.csv without times.
std::vector<std::string> table_in(const std::string& folder) {
  std::vector<std::string> rows;
  std::ifstream file(folder + "/progress.csv");
  for (std::string line; std::getline(file, line);) {
    size_t first = line.find(','), second = line.find(',', first + 1),
           third = line.find(',', second + 1);
    rows.push_back(line.substr(0, first) + line.substr(third));
  }
  return rows;
}

// A run's folder with the callback that keeps its result files.
struct Recorded {
  std::unique_ptr<RunFolder> run;
  ResultFiles files{run->path()};

  RunInfo info() const {
    static const Json config;
    static const ScalingConfig scaling;
    return {"run", run->path(), config, scaling, run->history().reports()};
  }
  void report(int attempt, int64_t index, const Json& metrics, const std::string& checkpoint) {
    run->report(attempt, index, metrics, {}, checkpoint);
    files.on_report(info(), run->history().reports().back());
  }
};

TEST(RunFolderTest, ItsHistoryMakesTheResultFiles) {
  TemporaryFolder storage;
  Recorded run{RunFolder::create({.name = "run", .storage_path = storage.path()}, {{"lr", 0.1}})};
  std::string path = storage / "run";
  EXPECT_EQ(run.run->path(), path);
  EXPECT_EQ(Json::parse(read_text(path + "/params.json")), Json({{"lr", 0.1}}));
  run.files.on_run_start(run.info());
  EXPECT_THAT(table_in(path), ElementsAre("training_iteration,checkpoint_dir_name"));
  run.run->note(attempt_started(0, 0));
  run.report(0, 0, {{"loss", 2}}, "");
  EXPECT_THAT(results_in(path), ElementsAre(R"({"loss":2,"training_iteration":1})"));
  run.report(0, 1, {{"loss", 1.5}, {"note", "a, \"b\""}, {"list", {1, 2}}, {"eval", {{"f1", 1}}}},
             "checkpoint_000001");
  run.report(0, 2, {{"loss", std::nan("")}, {"note", true}}, "");
  EXPECT_EQ(results_in(path).size(), 3u);
  EXPECT_THAT(table_in(path),
              ElementsAre("training_iteration,checkpoint_dir_name,loss,eval/f1,note", "1,,2,,",
                          "2,checkpoint_000001,1.5,1,\"a, \"\"b\"\"\"", "3,,,,true"));

  // The third report is made again.
  run.run->note(attempt_started(1, 2));
  run.report(1, 2, {{"loss", 0.5}}, "");
  EXPECT_EQ(results_in(path).size(), 3u);
  EXPECT_EQ(results_in(path).back(), R"({"loss":0.5,"training_iteration":3})");
  EXPECT_EQ(table_in(path).size(), 4u);
  EXPECT_EQ(table_in(path).back(), "3,,0.5,,");
  EXPECT_EQ(run.run->history().reports().size(), 3u);

  // And discarded at last.
  run.run->note(attempt_started(2, 2));
  run.files.on_run_end(run.info(), RunOutcome::kFailed);
  EXPECT_EQ(results_in(path).size(), 2u);
  EXPECT_EQ(table_in(path).size(), 3u);
}

TEST(RunFolderTest, ParametersCanChange) {
  TemporaryFolder storage;
  RunConfig config{.name = "run", .storage_path = storage.path()};
  RunFolder::create(config, {{"lr", 1}})->set_params({{"lr", 2}});
  EXPECT_EQ(RunFolder::open(storage / "run")->params(), Json({{"lr", 2}}));
}

TEST(RunFolderTest, AFolderWithARunIsNotUsedAgain) {
  TemporaryFolder storage;
  RunConfig config{.name = "run", .storage_path = storage.path()};
  fs::create_directory(storage / "run");  // empty: fine
  RunFolder::create(config, {});
  Error error = error_of([&] { RunFolder::create(config, {}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(storage / "run"), HasSubstr("RunConfig::name"),
                                  HasSubstr("restore")));
}

// They would count as the new run's, and its own would be removed as older ones.
TEST(RunFolderTest, AFolderWithCheckpointsOfNoRunIsRefused) {
  TemporaryFolder storage;
  RunConfig config{.name = "run", .storage_path = storage.path()};
  for (std::string name : {"checkpoint_000050", "checkpoint_000050.partial", ".staging"}) {
    fs::create_directories(storage / "run" + "/" + name);
    Error error = error_of([&] { RunFolder::create(config, {}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(storage / "run"), HasSubstr("'" + name + "'"),
                                    HasSubstr("RunConfig::name")));
    EXPECT_FALSE(fs::exists(storage / "run/params.json"));
    fs::remove(storage / "run" + "/" + name);
  }
  fs::create_directories(storage / "run/checkpoint_best");  // the user's own
  RunFolder::create(config, {});
}

TEST(RunFolderTest, DefaultNamesDiffer) {
  TemporaryFolder home;
  ::setenv("HOME", home.path().c_str(), 1);
  Json params = {{"trainer", "TorchTrainer"}};
  auto first = RunFolder::create({}, params);
  auto second = RunFolder::create({.storage_path = "~/manta_results"}, params);
  EXPECT_NE(first->path(), second->path());
  for (const auto& run : {first.get(), second.get()})
    EXPECT_THAT(
        run->path(),
        testing::MatchesRegex(home / "manta_results/TorchTrainer_....-..-.._..-..-..(_[0-9]+)?"));
  ::unsetenv("HOME");
  EXPECT_THAT(error_of([&] { RunFolder::create({}, params); }).what(), HasSubstr("storage_path"));
}

TEST(RunFolderTest, NamesAndStorageAreChecked) {
  TemporaryFolder storage;
  for (std::string name : {"a/b", "..", ".", "/tmp"}) {
    Error error =
        error_of([&] { RunFolder::create({.name = name, .storage_path = storage.path()}, {}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("'" + name + "'"));
  }
  EXPECT_EQ(error_of([&] { RunFolder::create({.storage_path = "s3://bucket/x"}, {}); }).kind(),
            ErrorKind::kInvalidArgument);
  std::ofstream(storage / "file") << "x";
  Error error = error_of([&] { RunFolder::create({.storage_path = storage / "file/x"}, {}); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), HasSubstr("file/x"));
}

TEST(RunFolderTest, OneDriverAtATime) {
  TemporaryFolder storage;
  RunConfig config{.name = "run", .storage_path = storage.path()};
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto run = RunFolder::create(config, {});
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  for (auto attempt : {+[](const RunConfig& c) { RunFolder::create(c, {}); },
                       +[](const RunConfig& c) { RunFolder::open(c.storage_path + "/run"); }}) {
    Error error = error_of([&] { attempt(config); });
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(storage / "run"), HasSubstr("in use by "),
                                    HasSubstr(str("process ", child))));
  }
  // A stopped process holds the lock, too; others do not wait for it.
  ::kill(child, SIGSTOP);
  ASSERT_EQ(::waitpid(child, nullptr, WUNTRACED), child);
  EXPECT_EQ(error_of([&] { RunFolder::open(storage / "run"); }).kind(), ErrorKind::kIo);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(RunFolder::open(storage / "run")->path(), storage / "run");
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

TEST(RunFolderTest, IsPrivateUnlessAskedOtherwise) {
  TemporaryFolder storage;
  mode_t before = ::umask(022);
  struct {
    const char* name;
    unsigned asked;
    mode_t folder, file;
  } cases[] = {{"default", RunConfig().folder_mode, 0700, 0600},
               {"shared", 0750, 0750, 0640},
               {"existing", 0700, 0700, 0600},
               {"open", 0777, 0755, 0644}};  // less the umask
  fs::create_directory(storage / "existing");
  for (const auto& one : cases) {
    auto run = RunFolder::create(
        {.name = one.name, .storage_path = storage.path(), .folder_mode = one.asked}, {});
    std::string path = run->path();
    ResultFiles(path).rewrite({});
    CheckpointStore store(path, {});
    CheckpointFolder folder(store.staging_folder(0, 0, 0));
    folder.write("parts/model", "m");
    store.commit({.index = 0}, {{0, folder.files()}});
    for (const char* name : {"", "/logs", "/checkpoint_000000", "/checkpoint_000000/parts"})
      EXPECT_EQ(mode_of(path + name), one.folder) << one.name << name;
    for (const char* name :
         {"/params.json", "/journal.jsonl", "/result.json", "/progress.csv", "/.lock",
          "/checkpoint_000000/manifest.json", "/checkpoint_000000/parts/model"})
      EXPECT_EQ(mode_of(path + name), one.file) << one.name << name;
  }
  ::umask(before);
}

TEST(RunFolderTest, OnlyItsOwnerGoesOnWithIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  TemporaryFolder storage;
  RunFolder::create({.name = "run", .storage_path = storage.path()}, {});
  for (const std::string& path : {storage.path(), storage / "run"})
    fs::permissions(path, fs::perms::all);
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    try {
      RunFolder::open(storage / "run");
    } catch (const Error& error) {
      bool good = error.kind() == ErrorKind::kInvalidArgument &&
                  std::string(error.what()).find("belongs to user 0, this is user 65534") !=
                      std::string::npos;
      ::_exit(good ? 0 : 1);
    }
    ::_exit(3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(::chown((storage / "run").c_str(), 65534, 65534), 0);
  EXPECT_NO_THROW(RunFolder::open(storage / "run"));  // root may
}

// Keys that become the same when they are written: the reader refuses that. (It also counts values,
// which JsonInputTest tests: four million take long.)
const Json kTwice = {{"\xfe", 1}, {"\xff", 2}};

TEST(RunFolderTest, WhatFailsDoesNotUseUpTheName) {
  TemporaryFolder storage;
  RunConfig config{.name = "run", .storage_path = storage.path()};
  Json deep = Json::array();
  for (int i = 0; i < 3000; ++i) deep = Json::array({std::move(deep)});
  Error error = error_of([&] { RunFolder::create(config, {{"train_loop_config", deep}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_FALSE(fs::exists(storage / "run"));
  error = error_of([&] { RunFolder::create(config, {{"text", std::string(65 << 20, 'x')}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_FALSE(fs::exists(storage / "run"));
  error = error_of([&] { RunFolder::create(config, {{"train_loop_config", kTwice}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("train_loop_config"), HasSubstr("twice")));
  EXPECT_FALSE(fs::exists(storage / "run"));
  RunFolder::create(config, {})->forget();
  EXPECT_EQ(RunFolder::create(config, {})->path(), storage / "run");
}

TEST(RunFolderTest, AReportThatCouldNotBeReadAgainIsRefused) {
  TemporaryFolder storage;
  auto run = RunFolder::create({.name = "run", .storage_path = storage.path()}, {});
  run->note(attempt_started(0, 0));
  Json deep = Json::array();
  for (int i = 0; i < 200; ++i) deep = Json::array({std::move(deep)});
  CheckpointStore store(run->path(), {});
  for (const Json& metrics :
       {Json({{"deep", deep}}), Json({{"text", std::string(17 << 20, 'x')}}), kTwice}) {
    Error error = error_of([&] { run->report(0, 0, metrics, {}, ""); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("metrics"));
    CheckpointFolder folder(store.staging_folder(0, 0, 0));
    folder.write("model", "m");
    error = error_of([&] { store.commit({.metrics = metrics}, {{0, folder.files()}}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("metrics"));
  }
  run->report(0, 0, {{"loss", 1}}, {}, "");
  EXPECT_EQ(read_journal(run->path() + "/journal.jsonl").size(), 2u);
}

TEST(RunFolderTest, GoesOnWhereADeadDriverStopped) {
  TemporaryFolder storage;
  std::string path = storage / "run";
  {
    auto run = RunFolder::create({.name = "run", .storage_path = storage.path()}, {{"lr", 1}});
    CheckpointStore store(path, {});
    run->note(attempt_started(0, 0));
    run->report(0, 0, {{"loss", 3}}, {}, "");
    // It dies after the commit, before the journal knows of it, and while it writes other files.
    CheckpointFolder folder(store.staging_folder(0, 1, 0));
    folder.write("model", "m");
    store.commit({.index = 1, .metrics = {{"loss", 2}}, .positions = {{"train", 5}}},
                 {{0, folder.files()}});
  }
  std::ofstream(path + "/result.json", std::ios::app) << "{\"loss\": 1";
  std::ofstream(path + "/journal.jsonl", std::ios::app) << "{\"ti";

  for (int attempt = 1; attempt <= 2; ++attempt) {
    auto run = RunFolder::open(path + "/");
    EXPECT_EQ(run->params(), Json({{"lr", 1}}));
    CheckpointStore store(path, {});
    Controller::Start start = run->resume(store.find_latest_valid());
    EXPECT_EQ(start.checkpoint, 1);
    EXPECT_EQ(start.next_report, 2);
    EXPECT_EQ(start.attempt, attempt);
    Recorded recorded{std::move(run)};
    recorded.files.on_run_start(recorded.info());
    EXPECT_THAT(
        results_in(path),
        testing::Contains(
            R"({"checkpoint_dir_name":"checkpoint_000001","loss":2,"training_iteration":2})"));
    recorded.run->note(attempt_started(start.attempt, start.next_report));
    recorded.report(attempt, 2, {{"loss", attempt}}, "");
    EXPECT_EQ(results_in(path).size(), 3u);
  }
  History last = history(read_journal(path + "/journal.jsonl"));
  ASSERT_EQ(last.reports().size(), 3u);
  EXPECT_EQ(last.reports()[1].checkpoint, "checkpoint_000001");
  EXPECT_EQ(last.reports()[2].attempt, 2);
}

TEST(RunFolderTest, WithoutACheckpointARestoredRunBeginsAgain) {
  TemporaryFolder storage;
  {
    auto run = RunFolder::create({.name = "run", .storage_path = storage.path()}, {});
    run->note(attempt_started(3, 0));
    run->report(3, 0, {{"loss", 3}}, {}, "");
  }
  auto run = RunFolder::open(storage / "run");
  Controller::Start start = run->resume(std::nullopt);
  EXPECT_FALSE(start.checkpoint);
  EXPECT_EQ(start.next_report, 0);
  EXPECT_EQ(start.attempt, 4);
  Error error = error_of([&] { RunFolder::open(storage / "nothing"); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("nothing"));
}

}  // namespace
}  // namespace manta::train
