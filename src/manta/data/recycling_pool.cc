#include <arrow/status.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "manta/data/recycling_pool_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kSmallest = 32 << 10, kLargest = 8 << 20;
constexpr int64_t kAlignment = 64;
// With AddressSanitizer none: a block that is given out again hides whoever still uses it.
#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kKeptBytes = 0;
#elif defined(__has_feature)  // clang says it in another way
constexpr int64_t kKeptBytes = __has_feature(address_sanitizer) ? 0 : 32 << 20;
#else
constexpr int64_t kKeptBytes = 32 << 20;
#endif

/// Blocks of which one can take the place of another: of 4, 5, 6 or 7 quarters of a power of two.
struct SizeClass {
  size_t number;
  int64_t bytes;
};

SizeClass numbered(size_t number) {
  return {number, (4 + static_cast<int64_t>(number % 4)) * (kSmallest / 4 << number / 4)};
}

std::optional<SizeClass> class_of(int64_t size, int64_t alignment) {
  if (size < kSmallest || size > kLargest || alignment > kAlignment) return std::nullopt;
  size_t number = 0;
  int64_t quarter = kSmallest / 4;
  for (; size > 8 * quarter; quarter *= 2) number += 4;
  return numbered(number + static_cast<size_t>((size + quarter - 1) / quarter) - 4);
}

}  // namespace

RecyclingPool& RecyclingPool::instance() {
  // Outlives all who hold rows.
  static auto* pool = new RecyclingPool(kKeptBytes, arrow::default_memory_pool());
  return *pool;
}

RecyclingPool::RecyclingPool(int64_t kept_bytes, arrow::MemoryPool* below)
    : below_(below), kept_bytes_(kept_bytes) {}

RecyclingPool::~RecyclingPool() { ReleaseUnused(); }

arrow::Status RecyclingPool::Allocate(int64_t size, int64_t alignment, uint8_t** out) {
  auto found = class_of(size, alignment);
  if (found) {
    std::lock_guard lock(mutex_);
    auto& blocks = unused_[found->number];
    if (!blocks.empty()) {
      *out = blocks.back();
      blocks.pop_back();
      unused_bytes_ -= found->bytes;
      counted_.DidAllocateBytes(size);
      return arrow::Status::OK();
    }
  }
  ARROW_RETURN_NOT_OK(below_->Allocate(found ? found->bytes : size, alignment, out));
  counted_.DidAllocateBytes(size);
  return arrow::Status::OK();
}

arrow::Status RecyclingPool::Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                                        uint8_t** block) {
  auto before = class_of(old_size, alignment), after = class_of(new_size, alignment);
  if (!before && !after) {
    ARROW_RETURN_NOT_OK(below_->Reallocate(old_size, new_size, alignment, block));
    counted_.DidReallocateBytes(old_size, new_size);
    return arrow::Status::OK();
  }
  if (before && after && before->number == after->number) {
    counted_.DidReallocateBytes(old_size, new_size);
    return arrow::Status::OK();
  }
  uint8_t* other = nullptr;
  ARROW_RETURN_NOT_OK(Allocate(new_size, alignment, &other));
  std::memcpy(other, *block, static_cast<size_t>(std::min(old_size, new_size)));
  Free(*block, old_size, alignment);
  *block = other;
  return arrow::Status::OK();
}

void RecyclingPool::Free(uint8_t* block, int64_t size, int64_t alignment) {
  counted_.DidFreeBytes(size);
  auto found = class_of(size, alignment);
  if (!found) return below_->Free(block, size, alignment);
  {
    std::lock_guard lock(mutex_);
    if (unused_bytes_ + found->bytes <= kept_bytes_) {
      unused_[found->number].push_back(block);
      unused_bytes_ += found->bytes;
      return;
    }
  }
  below_->Free(block, found->bytes, alignment);
}

void RecyclingPool::ReleaseUnused() {
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < kClasses; ++i) {
      for (uint8_t* block : unused_[i]) below_->Free(block, numbered(i).bytes, kAlignment);
      unused_[i].clear();
    }
    unused_bytes_ = 0;
  }
  below_->ReleaseUnused();
}

int64_t RecyclingPool::unused_bytes() const {
  std::lock_guard lock(mutex_);
  return unused_bytes_;
}

}  // namespace manta::data
