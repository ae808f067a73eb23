#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/file_chunks_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/manifest_internal.h"

namespace manta::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string bytes_of(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 % 251);
  return bytes;
}

TEST(FileChunksTest, ACheckpointTravelsThereAndBack) {
  TemporaryFolder folder;
  CheckpointFolder written(folder / "written");
  for (size_t size :
       {size_t{0}, size_t{1}, (size_t{1} << 20) - 1, size_t{1} << 20, size_t{2500000}})
    written.write(str("sub/", size), bytes_of(size));

  std::vector<std::string> parts;
  send_files(7, written, [&](const SendChunk& chunk) {
    EXPECT_EQ(chunk.index, 7);
    parts.push_back(str(chunk.name, " from ", chunk.offset, ": ", chunk.bytes.size()));
    write_chunk(folder / "arrived", chunk);
  });
  EXPECT_THAT(parts,
              ElementsAre("sub/0 from 0: 0", "sub/1 from 0: 1", "sub/1048575 from 0: 1048575",
                          "sub/1048576 from 0: 1048576", "sub/2500000 from 0: 1048576",
                          "sub/2500000 from 1048576: 1048576", "sub/2500000 from 2097152: 402848"));
  write_manifest(folder / "arrived", manifest_of(written.files()));

  Checkpoint arrived = Checkpoint::from_directory(folder / "arrived");  // with its checksums
  std::filesystem::create_directories(folder / "fetched");
  fetch_files(folder / "fetched", files_to_fetch(arrived),
              [&](const WantChunk& wanted) { return read_chunk(folder / "arrived", wanted); });
  Checkpoint fetched = Checkpoint::from_directory(folder / "fetched");
  EXPECT_EQ(fetched.manifest(), arrived.manifest());
  EXPECT_EQ(read_text(fetched.file("sub/2500000")), bytes_of(2500000));
}

TEST(FileChunksTest, WhatDoesNotFitIsRefused) {
  TemporaryFolder folder;
  auto write = [&](const std::string& name, uint64_t offset) {
    return error_of([&] { write_chunk(folder / "to", {0, name, offset, "1234"}); });
  };
  write_chunk(folder / "to", {0, "file", 0, "1234"});
  EXPECT_THAT(write("file", 8).what(), HasSubstr("come in the wrong order"));
  EXPECT_THAT(write("file", 2).what(), HasSubstr("come in the wrong order"));
  EXPECT_EQ(write("file", 0).kind(), ErrorKind::kIo) << "it is there already";
  EXPECT_EQ(write("other", 4).kind(), ErrorKind::kNotFound) << "it has no first part";
  for (const char* name : {"../file", "/file", "a/../../file", "", "manifest.json"})
    EXPECT_EQ(write(name, 0).kind(), ErrorKind::kInvalidArgument) << name;
  EXPECT_EQ(read_text(folder / "to/file"), "1234");

  EXPECT_EQ(error_of([&] {
              read_chunk(folder / "to", {"other", 0});
            }).kind(),
            ErrorKind::kNotFound);
  EXPECT_THAT(error_of([&] {
                read_chunk(folder / "to", {"file", 5});
              }).what(),
              HasSubstr("has become shorter"));
  auto nothing = [](const WantChunk&) { return FileChunk{"", true}; };
  EXPECT_EQ(error_of([&] { fetch_files(folder / "to", {"../x"}, nothing); }).kind(),
            ErrorKind::kInvalidArgument);
}

// A user of the driver's machine could make a link, so that the driver writes elsewhere.
TEST(FileChunksTest, LinksAreNotFollowed) {
  TemporaryFolder folder;
  std::ofstream(folder / "target") << "1234";
  std::filesystem::create_directories(folder / "to");
  std::filesystem::create_symlink(folder / "target", folder / "to/link");
  EXPECT_THROW(write_chunk(folder / "to", {0, "link", 4, "5678"}), Error);
  EXPECT_THROW(write_chunk(folder / "to", {0, "link", 0, "5678"}), Error);
  EXPECT_THROW(read_chunk(folder / "to", {"link", 0}), Error);
  EXPECT_EQ(read_text(folder / "target"), "1234");
}

}  // namespace
}  // namespace manta::train
