#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/file_internal.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// One rank's files, written as a worker writes them.
std::vector<CheckpointFile> write_files(const CheckpointStore& store, int64_t index, int rank,
                                        const std::vector<std::string>& names, int attempt = 0) {
  CheckpointFolder folder(store.staging_folder(attempt, index, rank));
  for (const std::string& name : names) folder.write(name, str(name, " of report ", index));
  return folder.files();
}

Checkpoint commit(CheckpointStore& store, int64_t index, const Json& metrics = Json::object()) {
  Checkpoint made = store.commit({.index = index, .metrics = metrics},
                                 {{0, write_files(store, index, 0, {"model"})}});
  store.keep_only_the_best();
  return made;
}

TEST(CheckpointStoreTest, FilesOfAllRanksBecomeOneCheckpoint) {
  TemporaryFolder run;
  CheckpointStore store(run.path(), {});
  auto first = write_files(store, 7, 0, {"model", "optimizer"}, 2);
  auto second = write_files(store, 7, 1, {"random/rank-1"}, 2);
  EXPECT_TRUE(fs::exists(run / ".staging/attempt-2/report-7/rank-1/random/rank-1"));
  Checkpoint checkpoint = store.commit({.index = 7,
                                        .attempt = 2,
                                        .world_size = 2,
                                        .metrics = {{"loss", 1.5}},
                                        .positions = {{"train", {{"epoch", 1}}}}},
                                       {{0, first}, {1, second}});
  EXPECT_EQ(checkpoint.path(), run / "checkpoint_000007");
  EXPECT_THAT(checkpoint.files(), ElementsAre("model", "optimizer", "random/rank-1"));
  EXPECT_EQ(read_text(checkpoint.file("random/rank-1")), "random/rank-1 of report 7");
  EXPECT_EQ(Checkpoint::from_directory(checkpoint.path()).manifest(), checkpoint.manifest());
  const Json& manifest = checkpoint.manifest();
  EXPECT_EQ(manifest["report"], 7);
  EXPECT_EQ(manifest["attempt"], 2);
  EXPECT_EQ(manifest["world_size"], 2);
  EXPECT_EQ(manifest["positions"]["train"]["epoch"], 1);
  EXPECT_FALSE(fs::exists(run / ".staging/attempt-2/report-7"));
  store.clean_up();
  EXPECT_THAT(names_in(run.path()), ElementsAre("checkpoint_000007"));
  EXPECT_TRUE(store.find(7));
  EXPECT_FALSE(store.find(8));
}

TEST(CheckpointStoreTest, TheSameNameFromTwoRanksIsAConflict) {
  TemporaryFolder run;
  CheckpointStore store(run.path(), {});
  auto first = write_files(store, 0, 1, {"a", "model"});
  auto second = write_files(store, 0, 3, {"b", "model"});
  Error error = error_of([&] { store.commit({.world_size = 4}, {{1, first}, {3, second}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 and rank 3"), HasSubstr("'model'"),
                                  HasSubstr("'model.rank-3'")));
  store.clean_up();
  EXPECT_THAT(names_in(run.path()), IsEmpty());
}

TEST(CheckpointStoreTest, AFileOfOneRankAndAFolderOfAnotherAreAConflict) {
  for (bool file_first : {true, false}) {
    TemporaryFolder run;
    CheckpointStore store(run.path(), {});
    auto file = write_files(store, 0, file_first ? 0 : 1, {"a", "a-b"});
    auto inside = write_files(store, 0, file_first ? 1 : 0, {"a/b/c"});
    Error error = error_of([&] {
      store.commit({.world_size = 2}, {{file_first ? 0 : 1, file}, {file_first ? 1 : 0, inside}});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(file_first ? "rank 0 wrote a file 'a' and rank 1"
                                                         : "rank 1 wrote a file 'a' and rank 0"),
                                    HasSubstr("a file 'a/b/c'"), HasSubstr("another name")));
    store.clean_up();
    EXPECT_THAT(names_in(run.path()), IsEmpty());
  }
}

TEST(CheckpointStoreTest, AFileThatIsNotWhatItsWriterSaidIsAnError) {
  TemporaryFolder run;
  CheckpointStore store(run.path(), {});
  commit(store, 0);
  auto files = write_files(store, 1, 0, {"model"});
  fs::resize_file(store.staging_folder(0, 1, 0) + "/model", 2);
  Error error = error_of([&] { store.commit({.index = 1}, {{0, files}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), HasSubstr("has 2 bytes, but rank 0 has written 17"));
  files = write_files(store, 1, 0, {"model", "b"});
  fs::remove(store.staging_folder(0, 1, 0) + "/b");
  error = error_of([&] { store.commit({.index = 1}, {{0, files}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), HasSubstr("rank-0/b"));
  store.clean_up();
  EXPECT_THAT(names_in(run.path()), ElementsAre("checkpoint_000000"));
  commit(store, 1);
  EXPECT_EQ(store.find_latest_valid()->manifest()["report"], 1);
}

// A checkpoint that does not match its own manifest is found before it gets the name of a
// checkpoint.
TEST(CheckpointStoreTest, ACommitThatCannotBeReadLeavesNoCheckpoint) {
  TemporaryFolder run;
  CheckpointStore store(run.path(), {});
  auto files =
      write_files(store, 0, 0, {"manifest.json.new"});  // writing the manifest needs this name
  EXPECT_EQ(error_of([&] {
              store.commit({.index = 0}, {{0, files}});
            }).kind(),
            ErrorKind::kCorrupt);
  store.clean_up();
  EXPECT_THAT(names_in(run.path()), IsEmpty());
  EXPECT_FALSE(store.find_latest_valid());
}

// Until its report is in the journal, a restart would begin with the one before.
TEST(CheckpointStoreTest, ACommitRemovesNoOther) {
  TemporaryFolder run;
  CheckpointStore store(run.path(), {.num_to_keep = 1});
  for (int64_t index : {0, 1})
    store.commit({.index = index}, {{0, write_files(store, index, 0, {"model"})}});
  EXPECT_EQ(store.find_latest_valid(0)->manifest()["report"], 0);
  store.keep_only_the_best();
  EXPECT_FALSE(store.find_latest_valid(0));
  EXPECT_EQ(store.find_latest_valid()->manifest()["report"], 1);
}

// How many descriptors this process can still open.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int left) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    int lowest = ::dup(0);
    ::close(lowest);
    rlimit limit{static_cast<rlim_t>(lowest + left), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(CheckpointStoreTest, WhatCannotBeReadJustNowIsNotTakenForDamaged) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UBSan needs a descriptor to look at an object's type";
#endif
  TemporaryFolder run;
  CheckpointStore store(run.path(), {});
  for (int64_t index : {0, 1}) commit(store, index);
  auto error_with_one_left = [](const std::function<void()>& body) {
    DescriptorLimit limit(1);  // for a folder; none for a file in it
    try {
      body();
    } catch (const Error& error) {
      return str(kind_name(error.kind()), ": ", error.what());
    }
    return std::string("nothing was thrown");
  };
  for (const auto& message : {error_with_one_left([&] { store.find_latest_valid(); }),
                              error_with_one_left([&] { CheckpointStore(run.path(), {}); })})
    EXPECT_THAT(message, AllOf(testing::StartsWith("io: "), HasSubstr(run / "checkpoint_00000"),
                               HasSubstr("Too many open files")));
  EXPECT_EQ(store.find_latest_valid()->manifest()["report"], 1);
}

TEST(CheckpointStoreTest, RetentionTable) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  struct {
    CheckpointConfig config;
    std::vector<double> scores;
    std::vector<int> kept;  // the order is that of best_checkpoints()
  } cases[] = {
      {{}, {1, 2, 3, 4}, {0, 1, 2, 3}},
      {{.num_to_keep = 1}, {1, 2, 3, 4}, {3}},
      {{.num_to_keep = 2}, {9, 8, 7, 6}, {2, 3}},
      {{.num_to_keep = 5}, {1, 2}, {0, 1}},
      {{.num_to_keep = 2, .checkpoint_score_attribute = "score"}, {1, 4, 2, 3}, {3, 1}},
      // The latest stays in addition.
      {{.num_to_keep = 2, .checkpoint_score_attribute = "score"}, {9, 8, 7, 1}, {3, 1, 0}},
      {{.num_to_keep = 1, .checkpoint_score_attribute = "score"}, {5, 1, 1, 1}, {3, 0}},
      {{.num_to_keep = 2, .checkpoint_score_attribute = "score", .checkpoint_score_order = "min"},
       {3, 1, 2, 0.5},
       {1, 3}},
      // Among equals, the later one is better.
      {{.num_to_keep = 2, .checkpoint_score_attribute = "score"}, {1, 1, 1, 1}, {2, 3}},
      {{.num_to_keep = 1, .checkpoint_score_attribute = "score", .checkpoint_score_order = "min"},
       {2, nan, 3},
       {2, 0}},
      {{.checkpoint_score_attribute = "score"}, {2, 3, 1}, {2, 0, 1}},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    TemporaryFolder run;
    const auto& one = cases[i];
    CheckpointStore store(run.path(), one.config);
    for (size_t index = 0; index < one.scores.size(); ++index)
      commit(store, static_cast<int64_t>(index), {{"score", one.scores[index]}});
    // The checkpoints on disk, as seen by this store and by a store that reads the folder anew.
    for (const CheckpointStore& view : {store, CheckpointStore(run.path(), one.config)}) {
      std::vector<int> kept;
      for (const auto& [checkpoint, metrics] : view.best_checkpoints())
        kept.push_back(checkpoint.manifest()["report"]);
      EXPECT_EQ(kept, one.kept) << "case " << i;
    }
    store.clean_up();
    EXPECT_EQ(names_in(run.path()).size(), one.kept.size()) << "case " << i;
  }
}

TEST(CheckpointStoreTest, TheScoreMayBeInsideAnObject) {
  TemporaryFolder run;
  CheckpointStore store(run.path(), {.num_to_keep = 1, .checkpoint_score_attribute = "valid/auc"});
  testing::internal::CaptureStderr();
  commit(store, 0, {{"valid", {{"auc", 0.9}}}, {"auc", 0.1}});
  commit(store, 1, {{"valid", {{"auc", 0.5}}}, {"auc", 0.7}});
  commit(store, 2, {{"valid", {{"auc", 0.6}}}, {"auc", 0.8}});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  store.clean_up();
  EXPECT_THAT(names_in(run.path()), ElementsAre("checkpoint_000000", "checkpoint_000002"));
}

TEST(CheckpointStoreTest, WithoutTheScoreACheckpointRanksLast) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  double infinity = std::numeric_limits<double>::infinity();
  for (Json metrics : {Json(), Json({{"accuracy", 1}}), Json({{"loss", "small"}}),
                       Json({{"loss", nan}}), Json({{"loss", nullptr}})}) {
    TemporaryFolder run;
    CheckpointConfig config{
        .num_to_keep = 2, .checkpoint_score_attribute = "loss", .checkpoint_score_order = "min"};
    CheckpointStore store(run.path(), config);
    testing::internal::CaptureStderr();
    commit(store, 0, metrics);
    commit(store, 1, {{"loss", infinity}});  // the worst of those that have a score
    commit(store, 2, metrics);
    commit(store, 3, {{"loss", 5}});
    std::string warnings = testing::internal::GetCapturedStderr();
    EXPECT_THAT(names_in(run.path()), AllOf(testing::Contains("checkpoint_000001"),
                                            testing::Contains("checkpoint_000003"),
                                            testing::Not(testing::Contains("checkpoint_000000")),
                                            testing::Not(testing::Contains("checkpoint_000002"))));
    EXPECT_THAT(warnings, AllOf(HasSubstr("report 0"), HasSubstr("'loss'"), HasSubstr("rank last"),
                                testing::Not(HasSubstr("report 2"))));  // once
    EXPECT_EQ(store.best_checkpoints().back().second["loss"], 5);
  }
}

TEST(CheckpointStoreTest, ConfigsThatMakeNoSense) {
  Error error = error_of([&] { check_checkpoint_config({.num_to_keep = -1}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("was -1"));
  error = error_of([&] { check_checkpoint_config({.checkpoint_score_order = "up"}); });
  EXPECT_THAT(error.what(), HasSubstr("'up'"));
  EXPECT_NO_THROW(check_checkpoint_config({}));
}

TEST(CheckpointStoreTest, TheLatestBeforeAReport) {
  TemporaryFolder run;
  CheckpointStore store(run.path(), {});
  for (int64_t index : {1, 3, 5}) commit(store, index);
  EXPECT_EQ(store.find_latest_valid(4)->manifest()["report"], 3);
  std::fstream(run / "checkpoint_000003/model", std::ios::in | std::ios::out).put('!');
  EXPECT_EQ(store.find_latest_valid(3)->manifest()["report"], 1);
  EXPECT_FALSE(store.find_latest_valid(0));
  EXPECT_EQ(store.find_latest_valid()->manifest()["report"], 5);
}

TEST(CheckpointStoreTest, OnlyFoldersOfTheirOwnReportAreCheckpoints) {
  TemporaryFolder run, elsewhere;
  {
    CheckpointStore store(run.path(), {}), other(elsewhere.path(), {});
    commit(store, 1);
    commit(other, 9);
  }
  fs::create_directory_symlink(elsewhere / "checkpoint_000009", run / "checkpoint_000009");
  fs::copy(run / "checkpoint_000001", run / "checkpoint_000004");
  fs::copy(run / "checkpoint_000001", run / "checkpoint_0000005");
  std::ofstream(run / "checkpoint_000006") << "x";
  testing::internal::CaptureStderr();
  CheckpointStore store(run.path(), {});
  std::string warnings = testing::internal::GetCapturedStderr();
  EXPECT_EQ(store.find_latest_valid()->manifest()["report"], 1);
  EXPECT_THAT(warnings, AllOf(HasSubstr("checkpoint_000009' is not a folder"),
                              HasSubstr("checkpoint_000004' holds the checkpoint of report 1"),
                              HasSubstr("checkpoint_000006' is not a folder")));
}

TEST(CheckpointStoreTest, ADamagedOneIsNamedAndTheOneBeforeIsUsed) {
  TemporaryFolder run;
  {
    CheckpointStore store(run.path(), {});
    EXPECT_FALSE(store.find_latest_valid());
    for (int64_t index = 0; index < 4; ++index) commit(store, index);
  }
  std::fstream(run / "checkpoint_000002/model", std::ios::in | std::ios::out).put('!');
  fs::resize_file(run / "checkpoint_000003/manifest.json", 5);
  testing::internal::CaptureStderr();
  CheckpointStore store(run.path(), {});
  auto found = store.find_latest_valid();
  std::string warnings = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->manifest()["report"], 1);
  EXPECT_THAT(warnings, AllOf(HasSubstr("checkpoint_000002"), HasSubstr("checkpoint_000003"),
                              HasSubstr("'model'")));
  // The run makes these reports again; their checkpoints replace the damaged ones.
  commit(store, 2);
  commit(store, 3);
  EXPECT_EQ(CheckpointStore(run.path(), {}).find_latest_valid()->manifest()["report"], 3);
  store.clean_up();
  EXPECT_EQ(names_in(run.path()).size(), 4u);
}

// A driver that is killed at any moment leaves only whole checkpoints and files that clean_up
// removes.
TEST(CheckpointStoreTest, KilledDuringCommits) {
  TemporaryFolder run;
  std::mt19937 random(1);
  int64_t last = -1;
  auto life = std::chrono::microseconds(2000);  // grows until a child comes as far as a commit
  for (int round = 0; round < 40 || last < 0; ++round) {
    if (last < 0 && round % 4 == 3) life *= 2;
    ASSERT_LT(life, std::chrono::minutes(1)) << "no child lived long enough for a single commit";
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        CheckpointStore store(run.path(), {.num_to_keep = 2});
        for (int64_t index = last + 1;; ++index) {
          auto first = write_files(store, index, 0, {"model", "parts/optimizer"});
          auto second = write_files(store, index, 1, {"parts/rank-1"});
          store.commit({.index = index, .world_size = 2}, {{0, first}, {1, second}});
          store.keep_only_the_best();
        }
      } catch (const std::exception& error) {
        ::_exit(1);
      }
    }
    std::this_thread::sleep_for(life + std::chrono::microseconds(random() % 20'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "a commit failed in the child";

    for (const std::string& name : names_in(run.path())) {
      if (name == ".staging" || name.find(".partial") != std::string::npos) continue;
      ASSERT_EQ(Checkpoint::from_directory(run / name).files().size(), 3u);
    }
    CheckpointStore store(run.path(), {.num_to_keep = 2});
    if (auto latest = store.find_latest_valid()) {
      int64_t index = latest->manifest()["report"];
      ASSERT_GE(index, last);
      last = index;
    } else {
      ASSERT_EQ(last, -1) << "checkpoints were lost";
    }
    store.clean_up();
    for (const std::string& name : names_in(run.path()))
      ASSERT_NO_THROW(Checkpoint::from_directory(run / name));
  }
  CheckpointStore store(run.path(), {.num_to_keep = 2});
  commit(store, last + 1);  // removes what killed processes had no time to remove
  store.clean_up();
  EXPECT_THAT(names_in(run.path()), ElementsAre(checkpoint_name(last), checkpoint_name(last + 1)));
}

}  // namespace
}  // namespace manta::train
