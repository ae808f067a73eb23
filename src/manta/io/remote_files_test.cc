// Stores that are not S3, through one that Arrow keeps in memory; those of S3 are in
// data/s3_test.cc.

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <gmock/gmock.h>

#include "manta/base/error_of_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/io/remote_files_internal.h"

namespace manta {
namespace {

RemoteAddress at(const std::string& path) { return *remote_address("mock:///" + path); }

void write(const std::string& path, const std::string& content) {
  NewRemoteFile file(at(path));
  check(file.stream()->Write(content.data(), static_cast<int64_t>(content.size())), "writing");
  file.publish();
}

TEST(RemoteAddressTest, IsTakenApartAndPutTogether) {
  EXPECT_FALSE(remote_address("/data/a.csv"));
  EXPECT_FALSE(remote_address("a.csv"));
  EXPECT_FALSE(remote_address("://a"));
  auto address = *remote_address("s3://anonymous@bucket/a b/c%20d.csv?region=x&scheme=http");
  EXPECT_EQ(address.scheme, "s3");
  EXPECT_EQ(address.authority, "anonymous@bucket");
  EXPECT_EQ(address.path, "a b/c%20d.csv");
  EXPECT_EQ(address.query, "region=x&scheme=http");
  EXPECT_EQ(address.text(), "s3://anonymous@bucket/a b/c%20d.csv?region=x&scheme=http");
  EXPECT_EQ(remote_address("gs://b//x/")->child("y").text(), "gs://b/x/y");
  EXPECT_EQ(remote_address("gs://b")->child("y").text(), "gs://b/y");
  EXPECT_EQ(error_of([] { remote_address("s3://key:secret@bucket/a"); }).kind(),
            ErrorKind::kInvalidArgument);
}

TEST(RemoteFilesTest, FilesAppearWholeAreListedOpenedAndRemoved) {
  write("x/a", "one");
  write("x/y/b", "three");
  {
    NewRemoteFile file(at("x/c"));
    check(file.stream()->Write("half", 4), "writing");
  }
  std::vector<std::string> paths;
  for (const auto& info : list_files_below(at("x"))) paths.push_back(info.address.text());
  EXPECT_THAT(paths, testing::UnorderedElementsAre("mock:///x/a", "mock:///x/y/b"));
  EXPECT_EQ(look_at(at("x")).kind, RemoteEntry::kFolder);
  EXPECT_EQ(look_at(at("x/a")).info.size, 3);
  EXPECT_EQ(look_at(at("x/c")).kind, RemoteEntry::kNothing);
  auto opened = open_remote(at("x/y/b"));
  EXPECT_EQ(opened.size, 5);
  EXPECT_EQ(check(opened.file->ReadAt(1, 10), "reading")->ToString(), "hree");
  EXPECT_EQ(check(opened.file->Read(2), "reading")->ToString(), "th");
  EXPECT_EQ(check(opened.file->Read(9), "reading")->ToString(), "ree");
  write("x/a", "other");
  EXPECT_EQ(look_at(at("x/a")).info.size, 5);
  remove_remote(at("x/a"));
  EXPECT_EQ(error_of([] { open_remote(at("x/a")); }).kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error_of([] { open_remote(at("x")); }).kind(), ErrorKind::kNotFound);
}

TEST(RemoteFilesTest, TextsAreReplacedAndFoldersRemoved) {
  write_remote(at("t/a"), "one");
  write_remote(at("t/a"), "");
  EXPECT_EQ(read_remote(at("t/a"), 0), "");
  write_remote(at("t/a"), "three");
  write_remote(at("t/b/c"), "four");
  EXPECT_EQ(read_remote(at("t/a"), 5), "three");
  EXPECT_EQ(error_of([] { read_remote(at("t/a"), 4); }).kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(error_of([] { read_remote(at("t/x"), 4); }).kind(), ErrorKind::kNotFound);
  remove_remote_folder(at("t/b"));
  EXPECT_EQ(look_at(at("t/b/c")).kind, RemoteEntry::kNothing);
  EXPECT_EQ(look_at(at("t/a")).kind, RemoteEntry::kFile);
  remove_remote_folder(at("t/b"));
}

}  // namespace
}  // namespace manta
