#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_internal.h"
#include "manta/io/checksum_internal.h"

namespace manta {
namespace {

std::string checksum_of(const std::string& text) {
  Checksum checksum;
  checksum.add(text.data(), text.size());
  return checksum.hex();
}

// The expected values are what `xxhsum -H3` and Python's xxhash.xxh3_64_hexdigest print.
TEST(ChecksumTest, IsXxh3) {
  EXPECT_EQ(checksum_of(""), "2d06800538d394c2");
  EXPECT_EQ(checksum_of("abc"), "78af5f94892f3950");
}

TEST(ChecksumTest, PiecesGiveTheChecksumOfTheWhole) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += static_cast<char>(i * 31 + i / 256);
  Checksum checksum;
  for (size_t at = 0, piece = 1; at < text.size(); at += piece, piece = piece * 3 % 1009) {
    piece = std::min(piece, text.size() - at);
    checksum.add(text.data() + at, piece);
  }
  EXPECT_EQ(checksum.hex(), checksum_of(text));
  checksum.add(nullptr, 0);
  EXPECT_EQ(checksum.hex(), checksum_of(text));
  checksum.add("x", 1);
  EXPECT_EQ(checksum.hex(), checksum_of(text + "x"));
}

TEST(ChecksumTest, OfAFile) {
  std::string path = std::filesystem::temp_directory_path() / str("checksum_test_", ::getpid());
  std::string text(3'000'000, 'm');
  std::ofstream(path) << text;
  FileDigest digest = digest_file(path);
  EXPECT_EQ(digest.size, text.size());
  EXPECT_EQ(digest.checksum, checksum_of(text));
  std::filesystem::remove(path);
  try {
    digest_file(path);
    FAIL() << "the file is gone";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), testing::HasSubstr(path));
  }
}

}  // namespace
}  // namespace manta
