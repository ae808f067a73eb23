#include "manta/io/shared_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "manta/base/error_internal.h"

namespace manta {
namespace {

std::shared_ptr<SharedMemory> region_of(const std::string& text) {
  SharedMemoryWriter writer;
  writer.append(text.data(), text.size());
  return std::move(writer).finish();
}

std::string_view text_of(const SharedMemory& memory) {
  return {reinterpret_cast<const char*>(memory.data()), memory.size()};
}

UniqueFd memfd_with(const std::string& text, int seals) {
  UniqueFd fd(::memfd_create("shared_memory_test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(SharedMemoryTest, WhatWasWrittenIsRead) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += std::to_string(i);
  auto region = region_of(text);
  EXPECT_EQ(region->size(), text.size());
  EXPECT_TRUE(text_of(*region) == text);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(region->data()) % 64, 0u);
}

TEST(SharedMemoryTest, AppendsAreAlignedAndWritesAreNot) {
  SharedMemoryWriter writer;
  EXPECT_EQ(writer.append("abc", 3), 0u);
  EXPECT_EQ(writer.append("def", 3), 64u);
  writer.write("ghi", 3);
  EXPECT_EQ(writer.size(), 70u);
  EXPECT_EQ(writer.align(), 128u);
  EXPECT_EQ(writer.align(), 128u);
  EXPECT_EQ(writer.append("", 0), 128u);
  writer.write("jkl", 3);
  EXPECT_EQ(writer.align(), 192u);  // the padding at the end is part of it
  auto region = std::move(writer).finish();
  ASSERT_EQ(region->size(), 192u);
  std::string expected(192, '\0');
  expected.replace(0, 3, "abc").replace(64, 6, "defghi").replace(128, 3, "jkl");
  EXPECT_EQ(text_of(*region), expected);
}

TEST(SharedMemoryTest, AdoptsARegionAndOutlivesItsWriter) {
  auto writer = region_of("shared");
  auto reader = SharedMemory::adopt(UniqueFd(::dup(writer->fd())), 6);
  writer.reset();
  EXPECT_EQ(text_of(*reader), "shared");
  auto part = SharedMemory::adopt(UniqueFd(::dup(reader->fd())), 3);
  reader.reset();
  EXPECT_EQ(text_of(*part), "sha");
}

TEST(SharedMemoryTest, ItCannotBeChanged) {
  auto region = region_of("sealed");
  EXPECT_EQ(::pwrite(region->fd(), "X", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(region->fd(), 1), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(region->fd(), 100), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::mmap(nullptr, 6, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fcntl(region->fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(text_of(*region), "sealed");
}

TEST(SharedMemoryTest, WhatCouldChangeUnderTheReaderIsRefused) {
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  std::string path = testing::TempDir() + "shared_memory_test-XXXXXX";
  UniqueFd file(::mkstemp(path.data()));
  ASSERT_EQ(::write(file.get(), "0123456789", 10), 10);
  ::unlink(path.c_str());
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  UniqueFd read_end(pipes[0]), write_end(pipes[1]);

  struct Case {
    const char* name;
    UniqueFd fd;
    size_t size;
    const char* message;
  };
  Case cases[] = {
      {"unsealed", memfd_with("0123456789", 0), 10, "not a sealed memfd"},
      {"not against writes", memfd_with("0123456789", kAll & ~F_SEAL_WRITE), 10, "not a sealed"},
      {"not against shrinking", memfd_with("0123456789", kAll & ~F_SEAL_SHRINK), 10,
       "not a sealed"},
      {"seals can be added", memfd_with("0123456789", kAll & ~F_SEAL_SEAL), 10, "not a sealed"},
      {"file", std::move(file), 10, "not a sealed memfd"},
      {"pipe", std::move(read_end), 10, "not a sealed memfd"},
      {"none", UniqueFd(), 10, "not a sealed memfd"},
      {"too small", memfd_with("0123456789", kAll), 11, "has 10 bytes, its message says 11"},
      {"huge", memfd_with("0123456789", kAll), SIZE_MAX, "has 10 bytes"},
      {"size 0", memfd_with("0123456789", kAll), 0, "its message says 0"},
  };
  for (auto& [name, fd, size, message] : cases) {
    SCOPED_TRACE(name);
    try {
      SharedMemory::adopt(std::move(fd), size);
      ADD_FAILURE() << "threw nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace manta
