#include "manta/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <functional>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/file_internal.h"

namespace manta::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

Checkpoint make_checkpoint(const TemporaryFolder& run) {
  CheckpointStore store(run.path(), {});
  CheckpointFolder folder(store.staging_folder(0, 3, 0));
  folder.write("model.bin", std::string(100'000, 'm'));
  folder.write("parts/a/small.txt", "hello");
  return store.commit({.index = 3, .metrics = {{"loss", 0.5}}, .positions = {{"train", 7}}},
                      {{0, folder.files()}});
}

TEST(CheckpointFolderTest, PiecesBecomeOneFile) {
  TemporaryFolder temporary;
  CheckpointFolder folder(temporary / "deep/folder");
  std::string first = "one ", large(20'000'000, 'x');
  folder.write("file", {{first.data(), first.size()}, {nullptr, 0}, {large.data(), large.size()}});
  folder.write("empty", "");
  ASSERT_EQ(folder.files().size(), 2u);
  EXPECT_EQ(read_text(folder.path() + "/file"), first + large);
  EXPECT_EQ(folder.files()[0].size, first.size() + large.size());
  EXPECT_EQ(folder.files()[1].size, 0u);

  CheckpointFolder other(temporary / "other");
  other.copy("a/copy", folder.path() + "/file");
  EXPECT_EQ(other.files()[0].size, folder.files()[0].size);
  EXPECT_EQ(other.files()[0].checksum, folder.files()[0].checksum);
  EXPECT_EQ(read_text(other.path() + "/a/copy"), first + large);
  Error error = error_of([&] { other.copy("b", temporary / "nowhere"); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("nowhere"));
}

TEST(CheckpointFolderTest, NamesAreChecked) {
  TemporaryFolder temporary;
  CheckpointFolder folder(temporary / "folder");
  for (std::string name :
       {"", "/etc/passwd", "..", "../x", "a/../b", "a//b", "a/", ".", "./a", "manifest.json"}) {
    Error error = error_of([&] { folder.write(name, "x"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << name;
    EXPECT_THAT(error.what(), HasSubstr("'" + name + "'"));
  }
  for (std::string name : {"a", "a.b", "...", "..a", "c/manifest.json", "a b"})
    folder.write(name, "x");
  EXPECT_EQ(error_of([&] { folder.write("a", "y"); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(read_text(temporary / "folder/a"), "x");
}

// A limit on the size of files stands for a full disk: write(2) fails, after a part was written.
TEST(CheckpointFolderTest, AFullDiskNamesTheFileAndLeavesNothing) {
  TemporaryFolder temporary;
  CheckpointFolder folder(temporary / "folder");
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit limited = before;
  limited.rlim_cur = 1'000'000;
  ::setrlimit(RLIMIT_FSIZE, &limited);
  Error error = error_of([&] { folder.write("weights", std::string(2'000'000, 'w')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("folder/weights'"), HasSubstr(errno_text(EFBIG))));
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_TRUE(folder.files().empty());
  folder.write("weights", "they fit now");
  EXPECT_EQ(folder.files().size(), 1u);
}

TEST(CheckpointTest, NamesItsFiles) {
  TemporaryFolder run;
  Checkpoint made = make_checkpoint(run);
  Checkpoint checkpoint = Checkpoint::from_directory(run / "checkpoint_000003/");
  EXPECT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint.path(), run / "checkpoint_000003");
  EXPECT_EQ(checkpoint.path(), made.path());
  EXPECT_EQ(checkpoint.manifest(), made.manifest());
  EXPECT_THAT(checkpoint.files(), ElementsAre("model.bin", "parts/a/small.txt"));
  EXPECT_EQ(read_text(checkpoint.file("parts/a/small.txt")), "hello");
  EXPECT_EQ(checkpoint.metrics(), Json({{"loss", 0.5}}));
  Error error = error_of([&] { checkpoint.file("model.pt"); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("'model.pt'"), HasSubstr("'model.bin'")));
}

TEST(CheckpointTest, NoneIsEmpty) {
  Checkpoint none;
  EXPECT_FALSE(none);
  EXPECT_TRUE(none.files().empty());
  EXPECT_TRUE(none.metrics().is_null());
  EXPECT_EQ(error_of([&] { none.file("x"); }).kind(), ErrorKind::kNotFound);
}

TEST(CheckpointTest, WithoutAManifestThereIsNone) {
  TemporaryFolder run;
  make_checkpoint(run);
  fs::remove(run / "checkpoint_000003/manifest.json");
  for (std::string name : {"checkpoint_000003", "nowhere"}) {
    Error error = error_of([&] { Checkpoint::from_directory(run / name); });
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr(name));
  }
}

TEST(CheckpointTest, DamageIsFound) {
  struct {
    const char* what;
    std::function<void(const std::string&)> damage;
    const char* named;
  } cases[] = {
      {"a changed byte",
       [](const std::string& path) {
         std::fstream file(path + "/model.bin", std::ios::in | std::ios::out);
         file.seekp(50'000);
         file.put('!');
       },
       "model.bin"},
      {"a cut file",
       [](const std::string& path) { fs::resize_file(path + "/parts/a/small.txt", 3); },
       "'parts/a/small.txt' has 3 bytes instead of 5"},
      {"a lost file", [](const std::string& path) { fs::remove(path + "/model.bin"); },
       "model.bin"},
      {"a folder instead",
       [](const std::string& path) {
         fs::remove(path + "/model.bin");
         fs::create_directory(path + "/model.bin");
       },
       "'model.bin' is not a file"},
      {"a cut manifest",
       [](const std::string& path) { fs::resize_file(path + "/manifest.json", 20); },
       "manifest.json is not"},
      {"a later version",
       [](const std::string& path) { replace_file(path + "/manifest.json", "{\"version\": 2}"); },
       "version 2"},
      {"a name outside",
       [](const std::string& path) {
         replace_file(path + "/manifest.json",
                      R"({"version": 1, "files": [{"name": "../x", "size": 1, "checksum": "0"}]})");
       },
       "'../x'"},
      {"no report",
       [](const std::string& path) {
         replace_file(path + "/manifest.json", R"({"version": 1, "files": [], "report": "3"})");
       },
       "no number 'report'"},
      {"no sizes",
       [](const std::string& path) {
         replace_file(path + "/manifest.json", R"({"version": 1, "files": [{"name": "x"}]})");
       },
       "size"},
  };
  for (const auto& one : cases) {
    TemporaryFolder run;
    std::string path = make_checkpoint(run).path();
    one.damage(path);
    Error error = error_of([&] { Checkpoint::from_directory(path); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << one.what;
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path), HasSubstr(one.named))) << one.what;
  }
}

}  // namespace
}  // namespace manta::train
