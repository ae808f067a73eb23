// Checkpoints as folders, values, bytes and addresses.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/remote.h"
#include "manta/core/session_folder_internal.h"
#include "manta/data/s3_server_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/manifest_internal.h"
#include "manta/train/python_internal.h"
#include "manta/train/session.h"
#include "manta/train/tensor_file_internal.h"
#include "manta/train/test_training_internal.h"

namespace manta::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string floats(std::vector<float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

CheckpointDict some_values() {
  return {{{"epoch", 3}, {"name", "tiny"}, {"nested", {{"list", {1, 2.5, nullptr}}}}},
          {{"weight", {"F32", {2, 3}, floats({0, 1, 2, 3, 4, 5})}},
           {"steps", {"I64", {}, std::string("\5\0\0\0\0\0\0\0", 8)}},
           {"none", {"U8", {0, 4}, ""}}}};
}

Checkpoint some_files(const std::string& path) {
  CheckpointFolder folder(path);
  folder.write("a", "first");
  folder.write("sub/b", std::string(100'000, 'x'));
  folder.write("empty", "");
  write_manifest(path, manifest_of(folder.files()));
  return Checkpoint::open(path);
}

TEST(CheckpointFormsTest, ValuesComeBackAndTheFolderGoesWithTheLastCopy) {
  std::string path;
  {
    Checkpoint checkpoint = Checkpoint::from_dict(some_values());
    path = checkpoint.path();
    Checkpoint copy = checkpoint;
    checkpoint = {};
    CheckpointDict back = copy.to_dict();
    EXPECT_EQ(back.values, some_values().values);
    EXPECT_EQ(back.tensors, some_values().tensors);
    EXPECT_THAT(copy.files(), ElementsAre("dict.json", "dict.safetensors"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

std::string folder_of_values() { return Checkpoint::from_dict({.values = {{"n", 1}}}).path(); }

// A worker that is killed must leave nothing behind.
TEST(CheckpointFormsTest, AWorkersAreInTheFolderOfTheRunWhichGoesAwayWithIt) {
  EXPECT_THAT(get(remote(folder_of_values)), testing::StartsWith(current_session_folder() + "/"));
  EXPECT_THAT(folder_of_values(), testing::Not(HasSubstr(current_session_folder())))
      << "it may be needed after the run";
}

TEST(CheckpointFormsTest, PythonReadsTheTensors) {
  Checkpoint checkpoint = Checkpoint::from_dict(some_values());
  std::string program =
      "import json, sys; from safetensors.numpy import load_file; t = load_file(sys.argv[1]); "
      "print(json.dumps({n: [str(a.dtype), a.shape, a.tolist()] for n, a in t.items()}))";
  EXPECT_EQ(Json::parse(output_of(
                {MANTA_TRACKERS_PYTHON, "-c", program, checkpoint.file("dict.safetensors")})),
            Json::parse(R"({"none": ["uint8", [0, 4], []], "steps": ["int64", [], 5],
                "weight": ["float32", [2, 3], [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]]})"));
}

TEST(CheckpointFormsTest, ValuesThatCannotBeKeptAreRefused) {
  auto refused = [](CheckpointDict dict) {
    return message_of([&] { Checkpoint::from_dict(dict); });
  };
  EXPECT_THAT(refused({Json::array(), {}}), HasSubstr("must be a JSON object"));
  EXPECT_THAT(refused({{{"x", "\xff"}}, {}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(refused({Json::object(), {{"w", {"F32", {2}, "123"}}}}),
              HasSubstr("'w' has 3 bytes"));
  EXPECT_THAT(refused({Json::object(), {{"w", {"F33", {1}, "1234"}}}}), HasSubstr("'F33'"));
  EXPECT_THAT(refused({Json::object(), {{"w", {"U8", {-1}, ""}}}}), HasSubstr("[-1]"));
  TemporaryFolder folder;
  EXPECT_THAT(message_of([&] { some_files(folder / "c").to_dict(); }), HasSubstr("'dict.json'"));
  EXPECT_THAT(message_of([] { Checkpoint().to_bytes(); }), HasSubstr("no checkpoint"));
}

TEST(CheckpointFormsTest, BytesComeBackOrAreRefused) {
  TemporaryFolder folder;
  Checkpoint checkpoint = some_files(folder / "c");
  std::string bytes = checkpoint.to_bytes();
  Checkpoint back = Checkpoint::from_bytes(bytes);
  EXPECT_EQ(back.manifest(), checkpoint.manifest());
  EXPECT_EQ(read_text(back.file("sub/b")), std::string(100'000, 'x'));
  EXPECT_EQ(back.to_bytes(), bytes);

  auto refused = [](const std::string& text) {
    Error error = error_of([&] { Checkpoint::from_bytes(text); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
    return std::string(error.what());
  };
  EXPECT_THAT(refused(""), HasSubstr("begin otherwise"));
  EXPECT_THAT(refused(bytes.substr(0, 20)), HasSubstr("end before the manifest"));
  EXPECT_THAT(refused(bytes.substr(0, 100)), HasSubstr("more than there are"));
  EXPECT_THAT(refused(bytes.substr(0, bytes.size() - 1)), HasSubstr("the manifest says"));
  EXPECT_THAT(refused(bytes + "x"), HasSubstr("the manifest says"));
  std::string other = bytes;
  other.back() = 'y';
  EXPECT_THAT(refused(other), HasSubstr("'sub/b' is not what the manifest says"));
  size_t name = bytes.find("sub/b");
  other = bytes;
  other.replace(name, 5, "../bb");
  refused(other);
}

TEST(CheckpointFormsTest, AFolderIsCopiedWhole) {
  TemporaryFolder folder;
  Checkpoint checkpoint = some_files(folder / "c");
  Checkpoint copy = checkpoint.to_directory(folder / "d/e");
  EXPECT_EQ(copy.manifest()["files"], checkpoint.manifest()["files"]);
  Checkpoint::from_directory(copy.path());
  EXPECT_THAT(message_of([&] { checkpoint.to_directory(folder / "d/e"); }), HasSubstr("already"));
  std::ofstream(folder / "c/a") << "firsd";
  EXPECT_THAT(message_of([&] { checkpoint.to_directory(folder / "f"); }), HasSubstr("'a'"));
  EXPECT_FALSE(std::filesystem::exists(folder / "f/manifest.json"));
}

// A folder of the user's own, or of another program.
TEST(CheckpointFormsTest, FilesOfAnyFolderBecomeACheckpoint) {
  TemporaryFolder folder;
  std::string mine = folder / "mine";
  std::filesystem::create_directories(mine + "/sub/empty");
  std::ofstream(mine + "/weights") << "1 2 3";
  std::ofstream(mine + "/sub/vocabulary.txt") << "a b";
  EXPECT_THAT(message_of([&] { Checkpoint::from_directory(mine); }),
              HasSubstr("Checkpoint::from_files makes a checkpoint"));
  Checkpoint checkpoint = Checkpoint::from_files(mine);
  std::filesystem::remove_all(mine);
  EXPECT_THAT(checkpoint.files(), ElementsAre("sub/vocabulary.txt", "weights"));
  Checkpoint::from_directory(checkpoint.path());  // it is whole
  EXPECT_EQ(read_text(Checkpoint::from_bytes(checkpoint.to_bytes()).file("weights")), "1 2 3");
  checkpoint.to_uri(folder / "kept");
  EXPECT_EQ(read_text(Checkpoint::from_uri(folder / "kept").file("sub/vocabulary.txt")), "a b");

  Training training = test_training(folder.path(), [] {
    std::string text = read_text(get_checkpoint().file("weights"));
    train::report({{"text", text}});
  });
  training.resume_from_checkpoint = checkpoint;
  EXPECT_EQ(run_training(training).metrics.at("text"), "1 2 3");
}

TEST(CheckpointFormsTest, WhatIsNoFileIsRefused) {
  TemporaryFolder folder;
  std::string mine = folder / "mine/";
  std::filesystem::create_directories(mine + "sub");
  EXPECT_THAT(message_of([&] { Checkpoint::from_files(folder / "other"); }),
              HasSubstr("is not a folder that exists"));
  EXPECT_THAT(message_of([&] { Checkpoint::from_files(mine); }), HasSubstr("there is no file in"));
  std::ofstream(mine + "weights") << "1";
  std::filesystem::create_symlink("/etc/passwd", mine + "sub/link");
  EXPECT_THAT(message_of([&] { Checkpoint::from_files(mine); }),
              testing::AllOf(HasSubstr("sub/link' is a link"), HasSubstr("put a copy")));
  std::filesystem::remove(mine + "sub/link");
  std::filesystem::create_directory_symlink("/etc", mine + "sub/folder");
  EXPECT_THAT(message_of([&] { Checkpoint::from_files(mine); }), HasSubstr("folder' is a link"));
  std::filesystem::remove(mine + "sub/folder");
  ASSERT_EQ(::mkfifo((mine + "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { Checkpoint::from_files(mine); }),
              HasSubstr("pipe' is neither a file nor a folder"));
  std::filesystem::remove(mine + "pipe");
  EXPECT_THAT(Checkpoint::from_files(mine).files(), ElementsAre("weights"));
  std::ofstream(mine + "manifest.json") << "{}";
  EXPECT_THAT(message_of([&] { Checkpoint::from_files(mine); }), HasSubstr("take from_directory"));
}

TEST(CheckpointFormsTest, GoesToAnAddressAndBack) {
  data::S3Server server;
  TemporaryFolder folder;
  Checkpoint checkpoint = some_files(folder / "c");
  std::string uri = server.address("models/best");
  EXPECT_THAT(message_of([&] { Checkpoint::from_uri(uri); }), HasSubstr("no checkpoint"));
  checkpoint.to_uri(uri);
  Checkpoint back = Checkpoint::from_uri(uri);
  EXPECT_EQ(back.manifest(), checkpoint.manifest());
  EXPECT_EQ(read_text(back.file("sub/b")), read_text(checkpoint.file("sub/b")));
  EXPECT_THAT(message_of([&] { checkpoint.to_uri(uri); }), HasSubstr("already"));
  EXPECT_EQ(error_of([&] { checkpoint.to_uri(server.address("x", "none")); }).kind(),
            ErrorKind::kNotFound);
  checkpoint.to_uri(folder / "local");
  EXPECT_EQ(Checkpoint::from_uri(folder / "local").files(), checkpoint.files());
}

void reports_values() {
  Checkpoint from = get_checkpoint();
  CheckpointDict dict = from ? from.to_dict() : CheckpointDict{{{"n", 0}}, {}};
  dict.values["n"] = dict.values["n"].get<int>() + 1;
  train::report(dict.values, Checkpoint::from_dict(dict));
  train::report({{"n", -1}}, Checkpoint());  // without one
}

TEST(CheckpointFormsTest, ALoopReportsValues) {
  TemporaryFolder storage;
  Training training = test_training(storage.path(), reports_values);
  Result result = run_training(training);
  EXPECT_EQ(result.checkpoint.to_dict().values, Json({{"n", 1}}));
  EXPECT_EQ(result.best_checkpoints.size(), 1u);
  training.run.name = "next";
  training.resume_from_checkpoint = result.checkpoint;
  EXPECT_EQ(run_training(training).checkpoint.to_dict().values, Json({{"n", 2}}));
}

}  // namespace
}  // namespace manta::train
