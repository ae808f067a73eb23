#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "manta/io/shared_region_internal.h"

namespace manta::data {

/// Shared memory that one block at a time lies in.
struct Segment {
  uint32_t id = 0;
  SharedRegion region;
  std::vector<bool> known;  ///< By rank: whether that worker has mapped it.

  int64_t size() const { return static_cast<int64_t>(region.size()); }
};

/// The segments that no block lies in, kept for the next ones: mapping memory anew costs more than
/// filling it.
class SegmentPool {
 public:
  explicit SegmentPool(size_t workers) : workers_(workers) {}

  /// One of at least `size` bytes: the smallest that is there, or none.
  std::unique_ptr<Segment> take(int64_t size);
  void put(std::unique_ptr<Segment> segment) { free_.push_back(std::move(segment)); }
  /// A new one. Throws Error(kResources) if there is no memory. Takes its time, and may be called
  /// while another thread uses the pool.
  std::unique_ptr<Segment> make(int64_t size);
  /// Gives up those that were put first, until the others have at most `bytes`.
  std::vector<std::unique_ptr<Segment>> shrink(int64_t bytes);

 private:
  const size_t workers_;
  std::vector<std::unique_ptr<Segment>> free_;
  std::atomic<uint32_t> next_id_ = 0;
};

}  // namespace manta::data
