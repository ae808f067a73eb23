#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace manta::detail {

/// Memory into which checkpoints are copied. It is kept: only pages that were touched before take a
/// copy at full speed.
class StagingPool {
 public:
  /// The process's pool: every checkpoint of a run reuses what the one before it gave back.
  static StagingPool& instance();

  /// A piece of the pool; gives itself back.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(StagingPool* pool, char* data, size_t capacity)
        : pool_(pool), data_(data), capacity_(capacity) {}
    Buffer(Buffer&& other) noexcept { *this = std::move(other); }
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();
    char* data() const { return data_; }
    size_t capacity() const { return capacity_; }

   private:
    StagingPool* pool_ = nullptr;
    char* data_ = nullptr;
    size_t capacity_ = 0;
  };

  StagingPool() = default;
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  /// The smallest free buffer that is large enough, or a new one in place of the free ones that are
  /// not. Throws Error(kResources) when memory is used up.
  Buffer acquire(size_t size);
  /// Makes sure that a free buffer of this size is there, and touched. Gives up when it is told to,
  /// or where there is no memory.
  void prepare(size_t size, const std::stop_token& stop);
  /// Bytes that nobody uses at the moment.
  size_t free_bytes() const;

 private:
  void release(char* data, size_t capacity);

  mutable std::mutex mutex_;
  std::vector<std::pair<size_t, char*>> free_;  ///< By size.
};

/// While it lives, a checkpoint of `size` bytes is written. If that takes longer than `patience`,
/// the next one may come before it ends and need memory of its own, whose first touch would hold up
/// the loop for longer than the copy: it is touched here, on a thread beside the one that writes.
/// Where disks are fast, no second copy of a model is ever held.
class SpareBuffer {
 public:
  SpareBuffer(StagingPool& pool, size_t size,
              std::chrono::milliseconds patience = std::chrono::milliseconds(500));

 private:
  std::jthread thread_;
};

/// One copy of many, done by several threads where torch has them. `to` is a multiple of 16.
struct StagedCopy {
  const void* from = nullptr;
  char* to = nullptr;
  size_t size = 0;
};
void copy_staged(const std::vector<StagedCopy>& copies);

}  // namespace manta::detail
