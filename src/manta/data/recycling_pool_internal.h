#pragma once

#include <arrow/memory_pool.h>

#include <array>
#include <mutex>
#include <vector>

namespace manta::data {

/// Gives freed blocks out again, whichever threads free and take them. Rows are decoded by one
/// thread and freed by another, for which Arrow's allocator takes fresh memory again and again:
/// zeroing its pages took a third of the time of a pass over two columns. Holds at most
/// `kept_bytes` that nobody uses, of blocks of 32 KiB to 8 MiB; others go to Arrow's own pool.
class RecyclingPool final : public arrow::MemoryPool {
 public:
  /// The process's, for what sources decode.
  static RecyclingPool& instance();

  explicit RecyclingPool(int64_t kept_bytes, arrow::MemoryPool* below);
  ~RecyclingPool() override;

  using arrow::MemoryPool::Allocate;
  using arrow::MemoryPool::Free;
  using arrow::MemoryPool::Reallocate;
  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override;
  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                           uint8_t** block) override;
  void Free(uint8_t* block, int64_t size, int64_t alignment) override;
  void ReleaseUnused() override;
  int64_t bytes_allocated() const override { return counted_.bytes_allocated(); }
  int64_t max_memory() const override { return counted_.max_memory(); }
  int64_t total_bytes_allocated() const override { return counted_.total_bytes_allocated(); }
  int64_t num_allocations() const override { return counted_.num_allocations(); }
  std::string backend_name() const override { return "recycling " + below_->backend_name(); }

  /// That nobody uses at the moment.
  int64_t unused_bytes() const;

 private:
  static constexpr size_t kClasses = 33;  // of sizes, four for each power of two

  arrow::MemoryPool* const below_;
  const int64_t kept_bytes_;
  arrow::internal::MemoryPoolStats counted_;
  mutable std::mutex mutex_;
  std::array<std::vector<uint8_t*>, kClasses> unused_;
  int64_t unused_bytes_ = 0;
};

}  // namespace manta::data
