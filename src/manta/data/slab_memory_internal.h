#pragma once

#include <cstdint>
#include <memory>

namespace arrow {
class Buffer;
}  // namespace arrow

namespace manta::data {

/// Memory for much that is taken in small blocks and freed together, such as rows that a sort
/// keeps. It comes from the kernel in slabs of 16 MiB, in pages of the usual size, and goes back
/// when the last block of a slab is freed, and this is gone or has begun another. Arrow's allocator
/// takes pages of 2 MiB instead: a virtual machine returns just those to its host as soon as they
/// are free, and the first pass of a sort then waited for the host five times as long as the rest
/// of it took. Pages are asked for 256 at a time, which costs three quarters of one by one.
class SlabMemory {
 public:
  /// That may be written; at a multiple of 64 bytes. Throws Error(kResources) if there is not
  /// enough; `doing` says what for.
  std::shared_ptr<arrow::Buffer> take(int64_t bytes, const char* doing);

 private:
  std::shared_ptr<arrow::Buffer> slab_;  ///< The last one.
  int64_t used_ = 0;                     ///< Of it.
  int64_t ready_ = 0;                    ///< Of it: has pages.
};

}  // namespace manta::data
