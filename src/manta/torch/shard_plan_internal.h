#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace manta::train::detail {

/// Numbers [begin, end) of a tensor that is seen as one row of numbers.
struct ShardRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const ShardRange&) const = default;
};

/// How many numbers of a tensor each of `world` workers has room for: the same for all, so that a
/// collective can exchange them. At least 1.
int64_t shard_capacity(int64_t numbers, int world);

/// The numbers that worker `rank` holds: the first workers have a full share each, then one has a
/// smaller share, and the rest have none.
ShardRange shard_of(int64_t numbers, int rank, int world);

/// Numbers to copy from a part of a stored tensor into a range of it.
struct ShardCopy {
  size_t part = 0;
  int64_t from = 0;  ///< Within the part.
  int64_t to = 0;    ///< Within the range.
  int64_t count = 0;
  bool operator==(const ShardCopy&) const = default;
};

/// The copies that fill `range` from parts of any sizes in any order. Numbers that no part has are
/// left out: the counts then do not add up to the range's size.
std::vector<ShardCopy> plan_copies(const std::vector<ShardRange>& parts, const ShardRange& range);

}  // namespace manta::train::detail
