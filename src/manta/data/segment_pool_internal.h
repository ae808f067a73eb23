#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "manta/io/shared_region_internal.h"

namespace manta::data {

/// Shared memory that holds one block at a time.
struct Segment {
  uint32_t id = 0;
  SharedRegion region;
  std::vector<bool> known;  ///< By rank: whether that worker has mapped it.

  int64_t size() const { return static_cast<int64_t>(region.size()); }
};

/// The segments that hold no block, kept for the next blocks: mapping memory anew costs more than
/// filling it.
class SegmentPool {
 public:
  explicit SegmentPool(size_t workers) : workers_(workers) {}

  /// Takes the smallest segment of at least `size` bytes, or none.
  std::unique_ptr<Segment> take(int64_t size);
  void put(std::unique_ptr<Segment> segment) { free_.push_back(std::move(segment)); }
  /// Makes a new segment. Throws Error(kResources) if there is no memory. It may take long, and may
  /// be called while another thread uses the pool.
  std::unique_ptr<Segment> make(int64_t size);
  /// Gives up the segments that were put first, until the others have at most `bytes`.
  std::vector<std::unique_ptr<Segment>> shrink(int64_t bytes);

 private:
  const size_t workers_;
  std::vector<std::unique_ptr<Segment>> free_;
  std::atomic<uint32_t> next_id_ = 0;
};

}  // namespace manta::data
