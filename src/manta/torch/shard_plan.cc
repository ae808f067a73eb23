#include <algorithm>

#include "manta/torch/shard_plan_internal.h"

namespace manta::train::detail {

int64_t shard_capacity(int64_t numbers, int world) {
  return std::max<int64_t>(1, (numbers + world - 1) / world);
}

ShardRange shard_of(int64_t numbers, int rank, int world) {
  int64_t capacity = shard_capacity(numbers, world);
  int64_t begin = std::min(numbers, rank * capacity);
  return {begin, std::min(numbers, begin + capacity)};
}

std::vector<ShardCopy> plan_copies(const std::vector<ShardRange>& parts, const ShardRange& range) {
  std::vector<ShardCopy> copies;
  for (size_t i = 0; i < parts.size(); ++i) {
    int64_t begin = std::max(parts[i].begin, range.begin);
    int64_t end = std::min(parts[i].end, range.end);
    if (begin >= end) continue;
    copies.push_back({i, begin - parts[i].begin, begin - range.begin, end - begin});
  }
  return copies;
}

}  // namespace manta::train::detail
