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

/// Memory into which checkpoints are copied. It is kept for later ones: copying is fast only into
/// pages that were touched before.
class StagingPool {
 public:
  /// The process's pool: every checkpoint of a run reuses the memory that the one before gave back.
  static StagingPool& instance();

  /// A piece of the pool; the destructor gives it back.
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

  /// The smallest free buffer that is large enough, or a new one, which replaces the free ones that
  /// are too small. Throws Error(kResources) when memory is used up.
  Buffer acquire(size_t size);
  /// Makes sure that there is a free buffer of this size whose pages have been touched. Gives up
  /// when `stop` says so, or if there is no memory.
  void prepare(size_t size, const std::stop_token& stop);
  /// Bytes that are not in use at the moment.
  size_t free_bytes() const;

 private:
  void release(char* data, size_t capacity);

  mutable std::mutex mutex_;
  std::vector<std::pair<size_t, char*>> free_;  ///< By size.
};

/// Lives while a checkpoint of `size` bytes is written. If that takes longer than `patience`, the
/// next checkpoint may come before the end and need other memory. Touching new memory would hold up
/// the loop for longer than the copy itself, so a separate thread touches it here. With fast disks,
/// no second copy of a model is ever held.
class SpareBuffer {
 public:
  SpareBuffer(StagingPool& pool, size_t size,
              std::chrono::milliseconds patience = std::chrono::milliseconds(500));

 private:
  std::jthread thread_;
};

/// One of many copies, made by several threads if torch has them. `to` is a multiple of 16.
struct StagedCopy {
  const void* from = nullptr;
  char* to = nullptr;
  size_t size = 0;
};
void copy_staged(const std::vector<StagedCopy>& copies);

}  // namespace manta::detail
