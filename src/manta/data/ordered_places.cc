#include <arrow/api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/data/ordered_places_internal.h"
#include "manta/data/piece_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

struct KeyedPlace {
  uint64_t key;  ///< In the order of the sort: smaller is earlier.
  int64_t place;
};
using KeyedPlaces = std::span<KeyedPlace>;

constexpr const char* kOrdering = "the order of rows";
/// Parts that are split have so many of the keys' bits, those of a sort in the cache so many.
constexpr int kSplitBits = 10, kDigitBits = 8;
/// KeyedPlaces that, with the room to sort them in, lie in a core's second-level cache.
constexpr size_t kCachedEntries = 8192;
/// Fewer are not worth several threads.
constexpr size_t kEntriesOfThreads = 1 << 16;

/// Some bits of a key: the highest of those in which keys differ.
struct Digit {
  Digit(uint64_t differing, int bits)
      : shift(std::max(0, static_cast<int>(std::bit_width(differing)) - bits)),
        mask((uint64_t{1} << bits) - 1) {}
  size_t of(uint64_t key) const { return static_cast<size_t>((key >> shift) & mask); }

  int shift;
  uint64_t mask;
};

uint64_t differing_bits(std::span<const KeyedPlace> entries) {
  uint64_t bits = 0;
  for (const KeyedPlace& entry : entries) bits |= entry.key ^ entries[0].key;
  return bits;
}

using SplitCounts = std::array<size_t, size_t{1} << kSplitBits>;

void count_digits(std::span<const KeyedPlace> entries, Digit digit, SplitCounts& counts) {
  counts.fill(0);
  for (const KeyedPlace& entry : entries) ++counts[digit.of(entry.key)];
}

/// `ends`: where the next entry of each digit goes; afterwards, behind the last one.
void scatter(std::span<const KeyedPlace> entries, Digit digit, SplitCounts& ends, KeyedPlace* to) {
  for (const KeyedPlace& entry : entries) to[ends[digit.of(entry.key)]++] = entry;
}

/// By the digits of these bits, the lowest first, each time in the order of the last. Where the
/// result is: `source`, or `target`, between which it moves.
KeyedPlace* sort_by_digits(KeyedPlace* source, KeyedPlace* target, size_t count, uint64_t bits) {
  constexpr uint64_t kMask = (uint64_t{1} << kDigitBits) - 1;
  for (int shift = 0; shift < 64; shift += kDigitBits) {
    if (((bits >> shift) & kMask) == 0) continue;
    std::array<uint32_t, kMask + 1> ends{};
    for (size_t i = 0; i < count; ++i) ++ends[(source[i].key >> shift) & kMask];
    uint32_t end = 0;
    for (uint32_t& each : ends) end += std::exchange(each, end);
    for (size_t i = 0; i < count; ++i) target[ends[(source[i].key >> shift) & kMask]++] = source[i];
    std::swap(source, target);
  }
  return source;
}

/// Entries that are nearly in order, equal keys as they are. False, with some of them moved towards
/// their places, if they are not: what it costs is limited to a few moves for each.
bool finish_by_insertion(KeyedPlaces entries) {
  size_t moves = 4 * entries.size();
  for (size_t i = 1; i < entries.size(); ++i) {
    KeyedPlace entry = entries[i];
    size_t at = i;
    for (; at > 0 && entries[at - 1].key > entry.key; --at) {
      if (moves-- == 0) break;
      entries[at] = entries[at - 1];
    }
    entries[at] = entry;
    if (moves > 4 * entries.size()) return false;  // below 0
  }
  return true;
}

/// The result is in `from`, or in `to` if that is asked for. Mostly few keys are equal in as many
/// bits as there are places, and then the other bits need not be looked at digit by digit.
void sort_in_cache(KeyedPlaces from, KeyedPlace* to, uint64_t differing, bool into_to) {
  const int width = static_cast<int>(std::bit_width(differing));
  const int enough = static_cast<int>(std::bit_width(from.size())) + kDigitBits;
  const int low = std::max(0, width - enough) / kDigitBits * kDigitBits;
  KeyedPlace* sorted = sort_by_digits(from.data(), to, from.size(), differing >> low << low);
  if (low > 0 && !finish_by_insertion({sorted, from.size()})) {
    KeyedPlace* other = sorted == to ? from.data() : to;
    sorted = sort_by_digits(sorted, other, from.size(), differing);
  }
  KeyedPlace* result = into_to ? to : from.data();
  if (sorted != result) std::copy_n(sorted, from.size(), result);
}

/// Splits by the highest digit until parts fit into the cache. The result as in `sort_in_cache`.
void sort_part(KeyedPlaces from, KeyedPlace* to, bool into_to) {
  uint64_t differing = differing_bits(from);
  if (from.size() <= kCachedEntries || differing == 0) {
    return sort_in_cache(from, to, differing, into_to);
  }
  Digit digit(differing, kSplitBits);
  SplitCounts ends;
  count_digits(from, digit, ends);
  size_t sum = 0;
  for (size_t& each : ends) sum += std::exchange(each, sum);
  scatter(from, digit, ends, to);
  for (size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++]) {
    if (ends[i] == begin) continue;
    sort_part({to + begin, ends[i] - begin}, from.data() + begin, !into_to);
  }
}

/// Calls it for 0 to `count` - 1 on several threads, this one among them. False if stopped before
/// all were done; throws what a call threw.
bool for_each(size_t count, const WideLimits& limits, const std::function<void(size_t)>& call) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> ended = false;
  std::mutex mutex;
  std::exception_ptr error;
  auto work = [&](const std::function<bool()>& stopping) {
    try {
      while (!ended) {
        if (stopping && stopping()) ended = true;
        size_t i = next++;
        if (ended || i >= count) return;
        call(i);
        count_work(limits.work);
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      error = std::current_exception();
      ended = true;
    }
  };
  std::vector<std::thread> threads;
  try {
    size_t wanted = std::min(count, static_cast<size_t>(std::max(1, limits.threads)));
    while (threads.size() + 1 < wanted) {
      threads.push_back(start_thread("a thread to sort", [&] { work({}); }));
    }
  } catch (const Error&) {  // the results are the same with fewer
  }
  work(limits.stopping);
  for (auto& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
  return !ended;
}

/// All entries and as much room again.
class PlaceSort {
 public:
  PlaceSort(const OrderKey& key, const WideLimits& limits) : key_(key), limits_(limits) {}

  /// False if stopped.
  bool take_all(const NextBatch& next_keys);
  bool sort();
  bool give(const std::function<void(const BatchPtr&)>& take) const;

 private:
  /// A part of the entries that one thread sorts.
  struct Part {
    KeyedPlaces from;
    KeyedPlace* to;
    bool into_to;
  };

  static std::unique_ptr<arrow::Buffer> room_for(size_t entries) {
    return check(arrow::AllocateBuffer(static_cast<int64_t>(entries * sizeof(KeyedPlace))),
                 kOrdering);
  }
  static KeyedPlace* entries_in(const std::unique_ptr<arrow::Buffer>& room) {
    return reinterpret_cast<KeyedPlace*>(room->mutable_data());
  }
  bool split(KeyedPlaces from, KeyedPlace* to, bool into_to);

  const OrderKey& key_;
  const WideLimits& limits_;
  size_t count_ = 0;
  std::unique_ptr<arrow::Buffer> entries_;
  std::vector<std::vector<int64_t>> nulls_;  // the places of each batch
  std::vector<Part> parts_;
};

/// Calls it with an array of the lane's type.
template <class Call>
void with_integers(const arrow::Array& lane, Call call) {
  switch (lane.type_id()) {
    case arrow::Type::INT8:
      return call(static_cast<const arrow::Int8Array&>(lane));
    case arrow::Type::INT16:
      return call(static_cast<const arrow::Int16Array&>(lane));
    case arrow::Type::INT32:
      return call(static_cast<const arrow::Int32Array&>(lane));
    case arrow::Type::INT64:
      return call(static_cast<const arrow::Int64Array&>(lane));
    case arrow::Type::UINT8:
      return call(static_cast<const arrow::UInt8Array&>(lane));
    case arrow::Type::UINT16:
      return call(static_cast<const arrow::UInt16Array&>(lane));
    case arrow::Type::UINT32:
      return call(static_cast<const arrow::UInt32Array&>(lane));
    case arrow::Type::UINT64:
      return call(static_cast<const arrow::UInt64Array&>(lane));
    default:
      MANTA_CHECK(false, "a key of another type");
  }
}

/// Appends the valid keys at `to`, and the places of the others to `nulls`.
void add_entries(const arrow::RecordBatch& batch, bool descending, KeyedPlace* to,
                 std::vector<int64_t>& nulls) {
  const auto& places = static_cast<const arrow::Int64Array&>(*batch.column(1));
  with_integers(*batch.column(0), [&](const auto& keys) {
    using Value = typename std::decay_t<decltype(keys)>::value_type;
    // Signed numbers are in the order of unsigned ones with the sign turned around.
    constexpr uint64_t kSign = std::is_signed_v<Value> ? uint64_t{1} << 63 : 0;
    const uint64_t turned = descending ? ~kSign : kSign;
    const bool has_nulls = keys.null_count() > 0;
    for (int64_t i = 0; i < keys.length(); ++i) {
      if (has_nulls && keys.IsNull(i)) {
        nulls.push_back(places.Value(i));
      } else {
        *to++ = {static_cast<uint64_t>(static_cast<int64_t>(keys.Value(i))) ^ turned,
                 places.Value(i)};
      }
    }
  });
}

bool PlaceSort::take_all(const NextBatch& next_keys) {
  Batches batches;
  std::vector<size_t> begins;
  while (auto batch = next_keys()) {
    begins.push_back(count_);
    count_ += static_cast<size_t>(batch->num_rows() - batch->column(0)->null_count());
    batches.push_back(std::move(batch));
  }
  nulls_.resize(batches.size());
  entries_ = room_for(count_);
  return for_each(batches.size(), limits_, [&](size_t i) {
    add_entries(*batches[i], key_.descending, entries_in(entries_) + begins[i], nulls_[i]);
    batches[i] = nullptr;
  });
}

bool PlaceSort::sort() {
  auto room = room_for(count_);
  if (!split({entries_in(entries_), count_}, entries_in(room), false)) return false;
  return for_each(parts_.size(), limits_,
                  [&](size_t i) { sort_part(parts_[i].from, parts_[i].to, parts_[i].into_to); });
}

/// Splits with all threads what is too large for one of them.
bool PlaceSort::split(KeyedPlaces from, KeyedPlace* to, bool into_to) {
  const auto threads = static_cast<size_t>(std::max(1, limits_.threads));
  uint64_t differing = 0;
  if (from.size() > std::max(kEntriesOfThreads, count_ / threads / 4)) {
    differing = differing_bits(from);
  }
  if (differing == 0) {
    parts_.push_back({from, to, into_to});
    return true;
  }
  Digit digit(differing, kSplitBits);
  auto slice = [&](size_t thread) {
    size_t begin = from.size() * thread / threads, end = from.size() * (thread + 1) / threads;
    return from.subspan(begin, end - begin);
  };
  std::vector<SplitCounts> ends(threads);
  if (!for_each(threads, limits_, [&](size_t i) { count_digits(slice(i), digit, ends[i]); }))
    return false;
  size_t sum = 0;
  std::vector<size_t> begins;
  for (size_t value = 0; value < ends[0].size(); ++value) {
    begins.push_back(sum);
    for (SplitCounts& each : ends) sum += std::exchange(each[value], sum);
  }
  begins.push_back(sum);
  if (!for_each(threads, limits_, [&](size_t i) { scatter(slice(i), digit, ends[i], to); })) {
    return false;
  }
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    size_t size = begins[i + 1] - begins[i];
    if (size == 0) continue;
    if (!split({to + begins[i], size}, from.data() + begins[i], !into_to)) return false;
  }
  return true;
}

bool PlaceSort::give(const std::function<void(const BatchPtr&)>& take) const {
  arrow::Int64Builder builder;
  auto flush = [&] {
    int64_t rows = builder.length();
    if (rows == 0) return true;
    if (limits_.stopping && limits_.stopping()) return false;
    take(lanes_batch({check(builder.Finish(), kOrdering)}, rows));
    count_work(limits_.work);
    return true;
  };
  auto add = [&](int64_t place) {
    if (builder.length() == 0) check(builder.Reserve(kPieceRows), kOrdering);
    builder.UnsafeAppend(place);
    return builder.length() < kPieceRows || flush();
  };
  auto add_nulls = [&] {
    return std::ranges::all_of(
        nulls_, [&](const auto& places) { return std::ranges::all_of(places, add); });
  };
  auto add_entries = [&] {
    return std::ranges::all_of(KeyedPlaces(entries_in(entries_), count_), add, &KeyedPlace::place);
  };
  bool added = key_.nulls_first ? add_nulls() && add_entries() : add_entries() && add_nulls();
  return added && flush();
}

}  // namespace

bool can_order_places(const std::vector<OrderKey>& keys) {
  return keys.size() == 1 && arrow::is_integer(keys[0].lane->id());
}

bool give_ordered_places(const NextBatch& next_keys, const OrderKey& key, const WideLimits& limits,
                         const std::function<void(const BatchPtr&)>& take) {
  PlaceSort all(key, limits);
  return all.take_all(next_keys) && all.sort() && all.give(take);
}

}  // namespace manta::data
