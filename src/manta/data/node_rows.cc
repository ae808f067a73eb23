#include <algorithm>

#include "manta/data/node_rows_internal.h"

namespace manta::data {
namespace {

std::vector<int32_t> sorted_ranks(std::vector<int32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

int64_t overlap(const Rows& rows, int64_t begin, int64_t end) {
  return std::max<int64_t>(
      std::min(end, rows.first_row + rows.rows) - std::max(begin, rows.first_row), 0);
}

}  // namespace

NodeRows::NodeRows(const StepRule& rule, int64_t from, std::vector<int32_t> ranks)
    : rule_(rule), from_(from), ranks_(sorted_ranks(std::move(ranks))) {
  for (int32_t rank : ranks_)
    of_whole_step_ += slice_of({0, rule_.global_batch}, rank, rule_.world_size).rows;
}

// The number of steps of `global_batch` rows in this many rows from from_ on, if more rows may
// follow.
int64_t NodeRows::whole_steps(int64_t rows) const {
  int64_t more = rows - rows_to_look_at(rule_);
  return more < 0 ? 0 : more / rule_.global_batch + 1;
}

int64_t NodeRows::decided(int64_t known) const {
  return from_ + whole_steps(known - from_) * rule_.global_batch;
}

NodeRows::Step NodeRows::step_at(int64_t row, int64_t total) const {
  int64_t batch = rule_.global_batch, number = (row - from_) / batch;
  if (total == kUnknown) return {number, {from_ + number * batch, batch}};
  int64_t all = total - from_;
  if (rule_.drop_last) {
    number = std::min(number, all / batch);
    return {number, {from_ + number * batch, number < all / batch ? batch : 0}};
  }
  int64_t last = whole_steps(all);
  number = std::min(number, last);
  int64_t first_row = from_ + number * batch;
  return {number, {first_row, number < last ? batch : total - first_row}};
}

int64_t NodeRows::before(int64_t row, int64_t total) const {
  if (row <= from_) return 0;
  Step step = step_at(row, total);
  int64_t rows = step.number * of_whole_step_;
  for (int32_t rank : ranks_)
    rows += overlap(slice_of(step.rows, rank, rule_.world_size), step.rows.first_row, row);
  return rows;
}

int64_t NodeRows::count(int64_t begin, int64_t end, int64_t total) const {
  return before(end, total) - before(begin, total);
}

std::vector<Rows> NodeRows::in(int64_t begin, int64_t end, int64_t total) const {
  std::vector<Rows> found;
  for (int64_t row = std::max(begin, from_); row < end;) {
    Rows step = step_at(row, total).rows;
    for (int32_t rank : ranks_) {
      Rows slice = slice_of(step, rank, rule_.world_size);
      int64_t rows = overlap(slice, row, end), first_row = std::max(slice.first_row, row);
      if (rows == 0) continue;
      if (!found.empty() && found.back().first_row + found.back().rows == first_row) {
        found.back().rows += rows;
      } else {
        found.push_back({first_row, rows});
      }
    }
    if (step.rows == 0) break;
    row = step.first_row + step.rows;
  }
  return found;
}

int64_t NodeRows::end_of(int64_t begin, int64_t end, int64_t total, int64_t rows) const {
  if (count(begin, end, total) <= rows) return end;
  int64_t low = begin + 1, high = end;  // the answer is in [low, high)
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (count(begin, middle, total) <= rows ? low : high) = middle;
  }
  return low;
}

}  // namespace manta::data
