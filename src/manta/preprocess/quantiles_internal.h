#pragma once

#include <arrow/type_fwd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace manta::preprocess {

/// The search for the values at some ranks of a column. It is exact, in memory that does not grow
/// with the rows. If there is room, the first pass keeps all values, and is the only one. Otherwise
/// it counts values by the first 16 bits of their order. Each further pass counts the next 16 bits
/// of values that begin like one that is searched for, so that four passes find them.
class QuantileSearch {
 public:
  /// `quantiles` lie between 0 and 1.
  explicit QuantileSearch(std::vector<double> quantiles) : quantiles_(std::move(quantiles)) {}
  bool is_done() const { return !found_.empty(); }
  /// The quantiles, interpolated as numpy does ("linear").
  const std::vector<double>& found() const { return found_; }

 private:
  friend class QuantileTally;
  struct Target {
    uint64_t rank = 0;    // rank among the values that begin with
    uint64_t prefix = 0;  // these first `level` * 16 bits
  };
  void start_ranks(int64_t count);
  void set_found(const std::vector<uint64_t>& keys);  // the keys of the targets

  std::vector<double> quantiles_, found_;
  int64_t count_ = 0;
  int level_ = 0;
  std::vector<Target> targets_;  // two for each quantile
};

/// The number of values that all tallies of a pass may keep together.
using RoomForValues = std::shared_ptr<std::atomic<int64_t>>;
RoomForValues room_for_values(int64_t values = int64_t{1} << 25);

/// The values of a column that one thread sees in one pass of a search.
class QuantileTally {
 public:
  QuantileTally(const QuantileSearch& search, RoomForValues room)
      : search_(&search), room_(std::move(room)) {}
  void add(const arrow::DoubleArray& values);
  void merge(QuantileTally& more);
  int64_t count() const { return count_; }
  /// Takes the search a pass further.
  void finish(QuantileSearch& search);

 private:
  using Histogram = std::vector<int64_t>;
  void count_key(uint64_t key);
  void count_kept();

  const QuantileSearch* search_;
  RoomForValues room_;
  int64_t count_ = 0;
  bool counting_ = false;                     // not keeping
  std::vector<uint64_t> kept_;                // of the first pass
  std::map<uint64_t, Histogram> histograms_;  // by prefix
};

}  // namespace manta::preprocess
