#pragma once

#include <cstdint>
#include <vector>

#include "manta/data/step_internal.h"

namespace manta::data {

/// Which rows of an epoch the ranks of one node take, by the rule that cuts the epoch into steps.
/// If hosts split the reading, each host is sent only these rows, without gaps. Senders, readers
/// and workers compute from this class where a row lies, so that no list of rows is sent.
///
/// `total` is the number of rows of the epoch, or kUnknown. The last step may be larger than the
/// others, so it makes a difference only for rows that are not `decided` without it.
class NodeRows {
 public:
  static constexpr int64_t kUnknown = -1;

  /// The first step begins with row `from`.
  NodeRows(const StepRule& rule, int64_t from, std::vector<int32_t> ranks);

  /// Once `known` rows are known to exist, the steps of the rows before this one are decided,
  /// whatever follows.
  int64_t decided(int64_t known) const;
  /// How many of the rows [begin, end) these ranks take. None before `from`.
  int64_t count(int64_t begin, int64_t end, int64_t total) const;
  /// The ranges of these rows, in order; adjacent rows are one range.
  std::vector<Rows> in(int64_t begin, int64_t end, int64_t total) const;
  /// The end of the longest range that begins with `begin`, ends at `end` or before it and has at
  /// most `rows` rows of these ranks; at least one row is in it.
  int64_t end_of(int64_t begin, int64_t end, int64_t total, int64_t rows) const;

 private:
  struct Step {
    int64_t number = 0;
    Rows rows;  ///< None: no rank takes them (drop_last).
  };
  Step step_at(int64_t row, int64_t total) const;
  int64_t before(int64_t row, int64_t total) const;
  int64_t whole_steps(int64_t rows) const;

  const StepRule rule_;
  const int64_t from_;
  const std::vector<int32_t> ranks_;
  int64_t of_whole_step_ = 0;
};

}  // namespace manta::data
