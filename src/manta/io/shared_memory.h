#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "manta/io/unique_fd.h"

namespace manta::internal {

/// A read-only region that processes share without copying. It has no name: it lives in a sealed
/// memfd, and is freed when the last process that holds it ends, whether or not the process
/// crashes.
class SharedMemory {
 public:
  /// Takes a descriptor from another process. Throws Error(kCorrupt) unless it is a memfd of at
  /// least `size` bytes that is sealed against changes and shrinking (otherwise its owner could
  /// crash a reader).
  static std::shared_ptr<SharedMemory> adopt(UniqueFd fd, size_t size);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;

  int fd() const { return fd_.get(); }
  size_t size() const { return size_; }
  const uint8_t* data() const { return data_; }

 private:
  SharedMemory(UniqueFd fd, size_t size, const uint8_t* data)
      : fd_(std::move(fd)), size_(size), data_(data) {}

  UniqueFd fd_;
  size_t size_;
  const uint8_t* data_;
};

/// Fills a region, then turns it into a SharedMemory. Writes go through write(2): for fresh pages
/// that is faster than storing through a mapping, which faults on each page.
class SharedMemoryWriter {
 public:
  SharedMemoryWriter();
  /// Appends at an offset that is a multiple of 64, and returns that offset. Throws
  /// Error(kResources) if memory is used up.
  size_t append(const void* data, size_t size);
  /// Pads to a multiple of 64 and returns the offset at which the next `write` starts.
  size_t align();
  /// Appends without alignment.
  void write(const void* data, size_t size);
  size_t size() const { return size_; }
  std::shared_ptr<SharedMemory> finish() &&;

 private:
  UniqueFd fd_;
  size_t size_ = 0;
};

}  // namespace manta::internal
