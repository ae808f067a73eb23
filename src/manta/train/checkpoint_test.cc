#include "manta/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <functional>

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
       "model.bin' is a folder; expected a file"},
      {"a link instead",
       [](const std::string& path) {
         fs::rename(path + "/model.bin", path + "/other");
         fs::create_symlink(path + "/other", path + "/model.bin");
       },
       "model.bin' is a symbolic link; expected a file"},
      {"a linked folder",
       [](const std::string& path) {
         fs::rename(path + "/parts", path + "/other");
         fs::create_directory_symlink("other", path + "/parts");
       },
       "parts' is a symbolic link; expected a folder"},
      {"a cut manifest",
       [](const std::string& path) { fs::resize_file(path + "/manifest.json", 20); },
       "manifest.json' is not JSON"},
      {"a changed metric",
       [](const std::string& path) {
         std::string text = read_text(path + "/manifest.json");
         text.replace(text.find("0.5"), 3, "0.7");
         replace_file(path + "/manifest.json", text);
       },
       "that of its content"},
      {"a later version",
       [](const std::string& path) { replace_file(path + "/manifest.json", "{\"version\": 3}"); },
       "version is 3"},
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

// A manifest of an older version, or of an attacker who can compute checksums.
TEST(CheckpointTest, ManifestsAreCheckedFieldByField) {
  TemporaryFolder run;
  std::string path = make_checkpoint(run).path();
  Json whole = Json::parse(read_text(path + "/manifest.json"));
  whole.erase("checksum");
  whole["version"] = 1;
  replace_file(path + "/manifest.json", whole.dump());
  EXPECT_EQ(Checkpoint::from_directory(path).files().size(), 2u);

  Json file = whole["files"][0];
  struct {
    const char* place;
    Json value;
    const char* named;
  } cases[] = {
      {"/report", "3", "report is \"3\"; expected a whole number"},
      {"/report", -1, "report is -1"},
      {"/report", 1e300, "report is 1e+300"},
      {"/attempt", 18446744073709551615u, "attempt is 18446744073709551615"},
      {"/world_size", 0, "world_size is 0"},
      {"/time", "now", "time is \"now\""},
      {"/metrics", 3, "metrics is 3; expected an object or null"},
      {"/positions", {1}, "positions is [1]; expected an object or null"},
      {"/files", nullptr, "files is null; expected an array"},
      {"/files/0", "model.bin", "files[0] is \"model.bin\" instead of a JSON object"},
      {"/files/0/name", "../x", "files[0].name is \"../x\""},
      {"/files/0/name", "/etc/passwd", "files[0].name is \"/etc/passwd\""},
      {"/files/0/name", std::string("a\0b", 3), "files[0].name"},
      {"/files/0/size", -1, "files[0].size is -1"},
      {"/files/0/size", 1e300, "files[0].size is 1e+300"},
      {"/files/0/size", INT64_MAX, "files[1].size is 5; expected a whole number from 0 to 0"},
      {"/files/0/checksum", 3, "files[0].checksum is 3"},
      {"/files/2", file, "files[2].name is \"model.bin\"; expected each file once"},
  };
  for (const auto& one : cases) {
    Json changed = whole;
    changed[Json::json_pointer(one.place)] = one.value;
    replace_file(path + "/manifest.json", changed.dump());
    Error error = error_of([&] { Checkpoint::open(path); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << one.named;
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path), HasSubstr(one.named)));
  }
}

}  // namespace
}  // namespace manta::train
