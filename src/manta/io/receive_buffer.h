#pragma once

#include <cstddef>
#include <memory>

namespace manta::internal {

/// Memory to receive into. A connection holds a buffer only while it has bytes of an incomplete
/// frame; a buffer that is given back serves the next connection that the thread reads. So
/// thousands of idle connections cost nothing, and no connection pays for fresh pages.
class ReceiveBuffer {
 public:
  /// A buffer of at least `size` bytes, with any content.
  static ReceiveBuffer take(size_t size);
  ReceiveBuffer() = default;
  ReceiveBuffer(ReceiveBuffer&& other) noexcept;
  ReceiveBuffer& operator=(ReceiveBuffer&& other) noexcept;
  /// Gives it back.
  ~ReceiveBuffer();

  char* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  ReceiveBuffer(std::unique_ptr<char[]> data, size_t size) : data_(std::move(data)), size_(size) {}

  std::unique_ptr<char[]> data_;
  size_t size_ = 0;
};

}  // namespace manta::internal
