#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

/// Memory that one process writes and others read at the same time, each through its own mapping.
/// It has no name, cannot shrink, and is freed with its last holder.
class SharedRegion {
 public:
  SharedRegion() = default;
  /// Makes a region: zeroed, allocated at once (so that no process is killed for lack of memory
  /// later) and mapped for writing. Throws Error(kResources) if there is no memory.
  static SharedRegion create(const std::string& name, size_t size);
  /// Maps a region that came from another process, for reading only unless `writable`. Throws
  /// Error(kCorrupt) if its size differs from `size`, or if it could shrink.
  static SharedRegion adopt(UniqueFd fd, size_t size, bool writable = false);

  SharedRegion(SharedRegion&& other) noexcept;
  SharedRegion& operator=(SharedRegion&& other) noexcept;
  ~SharedRegion();

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  /// A second descriptor of the region, for another process.
  UniqueFd duplicate() const;

 private:
  UniqueFd fd_;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace manta
