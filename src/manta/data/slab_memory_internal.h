#pragma once

#include <cstdint>
#include <memory>

namespace arrow {
class Buffer;
}  // namespace arrow

namespace manta::data {

/// Memory for large amounts of data that are taken in small blocks and freed together, such as rows
/// that a sort keeps. It comes from the kernel in slabs of 16 MiB, in pages of the usual size. A
/// slab goes back when its last block is freed, and this object is gone or has begun another slab.
/// Arrow's allocator takes pages of 2 MiB instead: a virtual machine returns such pages to its host
/// as soon as they are free, and the first pass of a sort then waited for the host five times as
/// long as the rest of the pass took. To ask for 256 pages at a time costs three quarters of one by
/// one.
class SlabMemory {
 public:
  /// Takes a block that may be written, at a multiple of 64 bytes. Throws Error(kResources) if
  /// there is not enough memory; `doing` says for which purpose.
  std::shared_ptr<arrow::Buffer> take(int64_t bytes, const char* doing);

 private:
  std::shared_ptr<arrow::Buffer> slab_;  ///< The last slab.
  int64_t used_ = 0;                     ///< Bytes used of it.
  int64_t ready_ = 0;                    ///< Bytes of it that have pages.
};

}  // namespace manta::data
