#include <algorithm>

#include "manta/data/segment_pool_internal.h"

namespace manta::data {
namespace {

// Segments differ little in size, so that most blocks fit into most of them.
constexpr int64_t kSegmentUnit = 256 << 10;

}  // namespace

std::unique_ptr<Segment> SegmentPool::take(int64_t size) {
  auto fits = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if ((*it)->size() >= size && (fits == free_.end() || (*it)->size() < (*fits)->size())) {
      fits = it;
    }
  }
  if (fits == free_.end()) return nullptr;
  auto segment = std::move(*fits);
  free_.erase(fits);
  return segment;
}

std::unique_ptr<Segment> SegmentPool::make(int64_t size) {
  auto segment = std::make_unique<Segment>();
  segment->id = next_id_++;
  int64_t whole = std::max<int64_t>((size + kSegmentUnit - 1) / kSegmentUnit, 1) * kSegmentUnit;
  segment->region = SharedRegion::create("manta-feed", static_cast<size_t>(whole));
  segment->known.assign(workers_, false);
  return segment;
}

std::vector<std::unique_ptr<Segment>> SegmentPool::shrink(int64_t bytes) {
  int64_t unused = 0;
  for (const auto& segment : free_) unused += segment->size();
  std::vector<std::unique_ptr<Segment>> dropped;
  while (dropped.size() < free_.size() && unused > bytes) {
    auto& segment = free_[dropped.size()];
    unused -= segment->size();
    dropped.push_back(std::move(segment));
  }
  free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(dropped.size()));
  return dropped;
}

}  // namespace manta::data
