// A run folder that an attacker has damaged or made: whatever is in it, restoring works or throws a
// manta::Error, never waits, and changes nothing outside the folder.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/log.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/params_internal.h"
#include "manta/train/result_files_internal.h"
#include "manta/train/run_folder_internal.h"

namespace manta::train {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

Checkpoint commit(RunFolder& run, CheckpointStore& store, int attempt, int64_t index) {
  CheckpointFolder folder(store.staging_folder(attempt, index, 0));
  folder.write("model", "weights");
  folder.write("parts/rank-0", "more weights");
  Json metrics = {{"loss", 1.5}, {"eval", {{"f1", 0.5}}}};
  Json positions = {{"train", {{"epoch", 1}, {"rows", 5}, {"window", 0}, {"window_first_row", 0}}}};
  Checkpoint checkpoint =
      store.commit({index, attempt, 1, metrics, positions}, {{0, folder.files()}});
  run.report(attempt, index, metrics, positions, checkpoint_name(index));
  return checkpoint;
}

// Does what TorchTrainer::restore and fit() do with a folder, but without processes. Makes one more
// report.
void restore(const std::string& path) {
  Training training = training_from_params(path);
  auto run = RunFolder::open(path);
  CheckpointStore store(run->path(), training.run.checkpoint_config);
  store.clean_up();
  Controller::Start start = run->resume(store.find_latest_valid());
  ResultFiles(path).rewrite(run->history().reports());
  run->note({kAttemptStarted,
             {{"checkpoint", Json()}, {"next_report", start.next_report}},
             start.attempt});
  commit(*run, store, start.attempt, start.next_report);
  run->note({kRunEnded, {{"outcome", "finished"}}, start.attempt});
}

class HostileFolderTest : public testing::Test {
 protected:
  HostileFolderTest() {
    set_log_level(LogLevel::kOff);
    Training training;
    training.trainer = "TorchTrainer";
    training.config = {{"lr", 0.1}};
    training.scaling.resources_per_worker.custom = {{"disk", 1}};
    training.scaling.split_reading = SplitReading::kNever;
    training.run = {.name = "whole", .storage_path = folder_.path()};
    training.framework = {{"backend", "auto"}};
    auto run = RunFolder::create(training.run, params_of(training));
    CheckpointStore store(run->path(), {});
    run->note({kAttemptStarted, {{"checkpoint", Json()}, {"next_report", 0}}, 0});
    for (int64_t index = 0; index < 3; ++index) commit(*run, store, 0, index);
    run->note({kAttemptFailed, {{"rank", 0}, {"message", "boom"}, {"restart", false}}, 0});
    run->note({kRunEnded, {{"outcome", "failed"}}, 0});
    ResultFiles(run->path()).rewrite(run->history().reports());
    std::ofstream(run->path() + "/logs/rank-0.log") << "output\n";
    fs::create_directory(folder_ / "victims");
    std::ofstream(folder_ / "victims/file") << "precious";
  }
  ~HostileFolderTest() override { set_log_level(LogLevel::kWarning); }

  // A copy of the run to damage.
  std::string fresh_run() {
    std::string path = folder_ / "run";
    fs::remove_all(path);
    fs::copy(folder_ / "whole", path, fs::copy_options::recursive);
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }

  // The message, or nothing if it worked.
  std::string try_to_restore(const std::string& what) {
    std::string message;
    try {
      restore(folder_ / "run");
    } catch (const Error& error) {
      message = error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ": not a manta::Error: " << error.what();
    }
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "victims"))
      names.push_back(entry.path().filename());
    EXPECT_THAT(names, testing::ElementsAre("file")) << what;
    EXPECT_EQ(read_text(folder_ / "victims/file"), "precious") << what;
    EXPECT_LT(message.size(), 2000u) << what;
    return message;
  }

  TemporaryFolder folder_;
};

const std::vector<std::string> kRunFiles = {"params.json",
                                            "journal.jsonl",
                                            "result.json",
                                            "progress.csv",
                                            ".lock",
                                            "logs/rank-0.log",
                                            "checkpoint_000002/manifest.json",
                                            "checkpoint_000002/model",
                                            "checkpoint_000002/parts/rank-0"};

TEST_F(HostileFolderTest, AWholeOneIsRestored) {
  fresh_run();
  EXPECT_EQ(try_to_restore("whole"), "");
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoint_000003/manifest.json"));
}

TEST_F(HostileFolderTest, CutOff) {
  for (const std::string& name : kRunFiles) {
    auto size = fs::file_size(folder_ / "whole" + "/" + name);
    for (uintmax_t left : {uintmax_t{0}, uintmax_t{1}, size / 4, size / 2, size - 1}) {
      std::string path = fresh_run();
      fs::resize_file(path + "/" + name, std::min(left, size));
      try_to_restore(str(name, " cut to ", left));
    }
  }
}

TEST_F(HostileFolderTest, FlippedBits) {
  for (const std::string& name : kRunFiles) {
    std::string whole = read_text(folder_ / "whole" + "/" + name);
    for (size_t i = 0; i < 16 && !whole.empty(); ++i) {
      std::string path = fresh_run();
      std::string damaged = whole;
      size_t at = i * 7919 % damaged.size();
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << (i % 8)));
      std::ofstream(path + "/" + name, std::ios::binary) << damaged;
      std::string message = try_to_restore(str(name, " with a bit of byte ", at, " flipped"));
      // Checksums cover a checkpoint's content: damage there means an earlier checkpoint, never an
      // error.
      if (name.find("checkpoint") == 0) {
        EXPECT_EQ(message, "") << name << at;
      }
      if (name == "checkpoint_000002/model") {
        EXPECT_EQ(Checkpoint::open(path + "/checkpoint_000002").manifest()["attempt"], 1);
      }
    }
  }
}

TEST_F(HostileFolderTest, SomethingElseInstead) {
  struct {
    const char* what;
    std::function<void(const std::string&)> make;
  } things[] = {
      {"nothing", [](const std::string&) {}},
      {"a pipe", [](const std::string& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); }},
      {"a link to a file",
       [&](const std::string& path) { fs::create_symlink(folder_ / "victims/file", path); }},
      {"a link to a folder",
       [&](const std::string& path) { fs::create_symlink(folder_ / "victims", path); }},
      {"a link to nothing",
       [&](const std::string& path) { fs::create_symlink(folder_ / "victims/new", path); }},
      {"a link to itself", [](const std::string& path) { fs::create_symlink(path, path); }},
      {"an endless device", [](const std::string& path) { fs::create_symlink("/dev/zero", path); }},
      {"another name of a file",
       [&](const std::string& path) { fs::create_hard_link(folder_ / "victims/file", path); }},
      {"a folder",
       [](const std::string& path) {
         fs::create_directories(path + "/inner");
         std::ofstream(path + "/inner/file") << "x";
       }},
      {"a socket",
       [](const std::string& path) { ASSERT_EQ(::mknod(path.c_str(), S_IFSOCK | 0600, 0), 0); }},
      {"brackets",
       [](const std::string& path) { std::ofstream(path) << std::string(1'000'000, '['); }},
      {"objects",
       [](const std::string& path) {
         std::ofstream out(path);
         for (int i = 0; i < 200'000; ++i) out << "{\"a\":";
       }},
      {"a sparse file of 20 GiB",
       [](const std::string& path) {
         std::ofstream(path) << "{\"a\":";
         fs::resize_file(path, uintmax_t{20} << 30);
       }},
  };
  std::vector<std::string> names = kRunFiles;
  for (const char* more :
       {"params.json.new", "result.json.new", "progress.csv.new", "journal.jsonl.new", ".staging",
        "checkpoint_000003", "checkpoint_000003.partial", "checkpoint_000003.removed.partial",
        "checkpoint_000002", "checkpoint_000002/parts", "logs", "logs/rank-1.log"})
    names.push_back(more);
  for (const std::string& name : names) {
    for (const auto& thing : things) {
      std::string path = fresh_run() + "/" + name;
      fs::remove_all(path);
      thing.make(path);
      try_to_restore(str(thing.what, " as ", name));
    }
  }
}

// The cases that were seen to do harm.
TEST_F(HostileFolderTest, LinksAreNotWrittenThrough) {
  std::string path = fresh_run();
  for (const char* name : {"progress.csv.new", "result.json.new", "progress.csv", "result.json"}) {
    fs::remove(path + "/" + name);
    fs::create_symlink(folder_ / "victims/file", path + "/" + name);
  }
  fs::remove_all(path + "/.staging");
  fs::create_directory_symlink(folder_ / "victims", path + "/.staging");
  EXPECT_EQ(try_to_restore("links"), "");  // they are replaced
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path + "/progress.csv")));
  for (const char* name : {"journal.jsonl", ".lock", "logs/rank-0.log", "params.json"}) {
    path = fresh_run();
    fs::remove(path + "/" + name);
    fs::create_symlink(folder_ / "victims/file", path + "/" + name);
    EXPECT_THAT(try_to_restore(name), HasSubstr(name));
  }
}

const std::vector<Json> kValues = {nullptr,
                                   -1,
                                   0,
                                   1e300,
                                   "x",
                                   "../../x",
                                   true,
                                   Json::array(),
                                   Json::object(),
                                   18446744073709551615u,
                                   INT64_MAX,
                                   INT64_MIN,
                                   0.5,
                                   std::string(5000, 'x'),
                                   Json::array({1, 2}),
                                   Json({{"a", 1}})};

// Calls `use` with every variant of `whole` in which one value, at any depth, is changed or
// missing; `use` also gets its place.
void each_variant(const Json& whole,
                  const std::function<void(const Json&, const std::string&)>& use) {
  Json leaves = whole.flatten();
  std::set<std::string> places;
  for (const auto& [leaf, value] : leaves.items()) {
    for (Json::json_pointer at(leaf); !at.empty(); at.pop_back()) places.insert(at.to_string());
  }
  for (const std::string& place : places) {
    Json::json_pointer at(place);
    for (const Json& other : kValues) {
      Json changed = whole;
      changed[at] = other;
      use(changed, str(place, " is ", other.dump().substr(0, 30)));
    }
    Json changed = whole;
    Json& parent = changed[at.parent_pointer()];
    if (!parent.is_object()) continue;
    parent.erase(at.back());
    use(changed, place + " is missing");
  }
}

TEST_F(HostileFolderTest, AnyValueOfParams) {
  std::string path = fresh_run();
  Json whole = Json::parse(read_text(path + "/params.json"));
  whole["datasets"] = {{"train", {{"explain", "?"}, {"plan", {{"version", 1}, {"source", "x"}}}}}};
  int refused = 0;
  each_variant(whole, [&](const Json& changed, const std::string& what) {
    replace_file(path + "/params.json", changed.dump());
    try {
      training_from_params(path);
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr("params.json")) << what;
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ": not a manta::Error: " << error.what();
    }
  });
  EXPECT_GT(refused, 200);
}

TEST_F(HostileFolderTest, WhatIsWrongWithParamsIsNamed) {
  struct {
    const char* place;
    Json value;
    const char* message;
  } cases[] = {
      {"/scaling_config/num_workers", -1, "scaling_config.num_workers is -1; expected a whole"},
      {"/scaling_config/num_workers", 1e300, "scaling_config.num_workers is 1e+300"},
      {"/scaling_config/num_workers", 1'000'000'000, "from 0 to 10000"},
      {"/scaling_config/resources_per_worker/cpus", -0.5, "resources_per_worker.cpus is -0.5"},
      {"/scaling_config/resources_per_worker/custom/0/1", -1, "custom is [[\"disk\",-1]]"},
      {"/scaling_config/split_reading", "some", "split_reading is \"some\"; expected auto, always"},
      {"/run_config/collective_timeout_ms", 0, "run_config.collective_timeout_ms is 0"},
      {"/run_config/collective_timeout_ms", INT64_MAX, "collective_timeout_ms is 92233720368"},
      {"/run_config/max_failures", -2, "run_config.max_failures is -2"},
      {"/run_config/num_to_keep", 4294967296, "run_config.num_to_keep is 4294967296"},
      {"/run_config/checkpoint_score_order", "up", "\"max\" or \"min\""},
      {"/run_config/folder_mode", 07777, "run_config.folder_mode is 4095"},
      {"/run_config/verbose", 4, "run_config.verbose is 4"},
      {"/run_config/stop/time_ms", -1, "run_config.stop.time_ms is -1"},
      {"/run_config/stop/at_least", {{"auc", "high"}}, "run_config.stop.at_least.auc is \"high\""},
      {"/train_loop_config", 3, "train_loop_config is 3; expected an object or null"},
      {"/framework", "shm", "framework is \"shm\" instead of a JSON object"},
      {"/resume_from_checkpoint", 3, "resume_from_checkpoint is 3"},
      {"/datasets", 3, "datasets is 3 instead of a JSON object"},
      {"/datasets/train", Json({{"plan", {{"version", 1}}}}), "datasets.train.plan"},
  };
  std::string path = fresh_run();
  EXPECT_EQ(training_from_params(path).scaling.split_reading, SplitReading::kNever);
  Json whole = Json::parse(read_text(path + "/params.json"));
  for (const auto& one : cases) {
    Json changed = whole;
    changed[Json::json_pointer(one.place)] = one.value;
    replace_file(path + "/params.json", changed.dump());
    EXPECT_THAT(message_of([&] { training_from_params(path); }),
                testing::AllOf(HasSubstr("run/params.json'"), HasSubstr(one.message)));
  }
}

TEST_F(HostileFolderTest, AnyValueOfTheJournal) {
  std::string path = fresh_run();
  std::vector<std::string> lines;
  std::ifstream file(path + "/journal.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  for (size_t number : {size_t{0}, size_t{1}, lines.size() - 1}) {
    each_variant(Json::parse(lines[number]), [&](const Json& changed, const std::string& what) {
      std::string text;
      for (size_t i = 0; i < lines.size(); ++i)
        text += (i == number ? changed.dump() : lines[i]) + "\n";
      replace_file(path + "/journal.jsonl", text);
      try {
        History all = history(read_journal(path + "/journal.jsonl"));
        for (const ReportRecord& report : all.reports()) {
          EXPECT_TRUE(result_of(report).is_object());
        }
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr(str("line ", number + 1, " of '"))) << what;
      } catch (const std::exception& error) {
        ADD_FAILURE() << "line " << number + 1 << ", " << what
                      << ": not a manta::Error: " << error.what();
      }
    });
  }
}

TEST_F(HostileFolderTest, AnyValueOfAManifest) {
  fresh_run();
  std::string path = folder_ / "run/checkpoint_000002";
  Json whole = Json::parse(read_text(path + "/manifest.json"));
  whole.erase("checksum");  // which an attacker would make anew
  whole["version"] = 1;
  int refused = 0;
  each_variant(whole, [&](const Json& changed, const std::string& what) {
    replace_file(path + "/manifest.json", changed.dump());
    try {
      Checkpoint::from_directory(path);
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr(path)) << what;
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ": not a manta::Error: " << error.what();
    }
  });
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace manta::train
