#include "manta/io/receive_buffer.h"

#include <utility>

namespace manta::internal {
namespace {

constexpr size_t kMinKeptSize = 64u << 10;  // smaller ones cost nothing to make
constexpr size_t kMaxKeptSize = 2u << 20;   // larger ones are rare
constexpr size_t kMaxKept = 2;

// A destructor that runs after those of the thread may still give back a buffer.
thread_local bool thread_has_ended = false;

struct KeptBuffers {
  std::unique_ptr<char[]> data[kMaxKept];
  size_t size[kMaxKept] = {};
  ~KeptBuffers() { thread_has_ended = true; }
};
thread_local KeptBuffers kept;

}  // namespace

ReceiveBuffer ReceiveBuffer::take(size_t size) {
  if (size >= kMinKeptSize && !thread_has_ended) {
    for (size_t i = 0; i < kMaxKept; ++i) {
      if (kept.size[i] >= size) return {std::move(kept.data[i]), std::exchange(kept.size[i], 0)};
    }
  }
  return {std::make_unique_for_overwrite<char[]>(size), size};
}

ReceiveBuffer::ReceiveBuffer(ReceiveBuffer&& other) noexcept
    : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}

ReceiveBuffer& ReceiveBuffer::operator=(ReceiveBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

ReceiveBuffer::~ReceiveBuffer() {
  if (size_ < kMinKeptSize || size_ > kMaxKeptSize || thread_has_ended) return;
  // Keeps the largest buffers: they fit every frame.
  for (size_t i = 0; i < kMaxKept; ++i) {
    if (kept.size[i] >= size_) continue;
    std::swap(kept.data[i], data_);
    std::swap(kept.size[i], size_);
  }
}

}  // namespace manta::internal
