#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/run_files_internal.h"

namespace manta::train {
namespace {

using testing::ElementsAre;
using testing::Key;
using testing::UnorderedElementsAre;

TEST(RunFilesTest, OnlyTheRunsOwnNamesAreLeftOut) {
  TemporaryFolder folder;
  for (std::string name :
       {"params.json", "params.json.new", "journal.jsonl", ".lock", ".store.json",
        ".store.json.new", ".staging/mark", ".upload/checkpoint_000001-2/state",
        "checkpoint_000001/state", "checkpoint_000002.partial/state",
        "checkpoint_000003.removed.partial/state",
        // names of other files
        "result.json", "logs/rank-0.log", "logs/.lock", "manifest.json", "checkpoint_scores.csv",
        "checkpoint_1/state", ".hydra/config.yaml", ".staging2", "params.json.old",
        "sub/params.json", "sub/checkpoint_000001/state",
        // and names that a store cannot have
        "owner.json", "journal/today"}) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    std::ofstream(folder / name) << "x";
  }
  std::filesystem::create_symlink("logs", folder / "link");
  std::filesystem::create_symlink("nowhere", folder / "logs/link");
  OtherFiles found = other_files(folder.path());
  EXPECT_THAT(found.names,
              UnorderedElementsAre("result.json", "logs/rank-0.log", "logs/.lock", "manifest.json",
                                   "checkpoint_scores.csv", "checkpoint_1/state",
                                   ".hydra/config.yaml", ".staging2", "params.json.old",
                                   "sub/params.json", "sub/checkpoint_000001/state"));
  EXPECT_THAT(found.left_out,
              ElementsAre(Key("journal"), Key("link"), Key("logs/link"), Key("owner.json")));
}

TEST(RunFilesTest, OnlyTheOwnNamesOfAnExperimentAreLeftOut) {
  TemporaryFolder folder;
  for (std::string name : {"experiment.json", "journal.jsonl", ".lock", ".staging/mark",
                           "trial_00000/checkpoint_000001/state", "trial_00000/.staging/x",
                           // names of other files
                           "notes", "trial_00000/plot.png", "sub/.staging/x"}) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    std::ofstream(folder / name) << "x";
  }
  OtherFiles found = other_files(folder.path(), kFolderOfFunctions);
  EXPECT_THAT(found.names, UnorderedElementsAre("notes", "trial_00000/plot.png", "sub/.staging/x"));
  EXPECT_THAT(found.left_out, testing::IsEmpty());
}

TEST(RunFilesTest, PathsStayInTheirFolder) {
  for (const char* good : {"a", "manifest.json", "a/manifest.json", "..a/b..", ".hidden/x"})
    EXPECT_NO_THROW(check_relative_path(good, "a name"));
  for (std::string bad : {"", "/a", "a//b", "a/", "..", "../a", "a/../b", "a/.", "."}) {
    Error error = error_of([&] { check_relative_path(bad, "a name"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << bad;
    EXPECT_THAT(error.what(), testing::HasSubstr("'" + bad + "' cannot be a name"));
  }
  EXPECT_THROW(check_relative_path(std::string("a\0b", 3), "a name"), Error);
}

}  // namespace
}  // namespace manta::train
