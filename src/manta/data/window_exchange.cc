#include <arrow/array.h>
#include <arrow/record_batch.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/gather_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/window_exchange_internal.h"

namespace manta::data {
namespace {

// Shorter ranges are copied row by row: a slice costs about as much as so many rows.
constexpr int64_t kShortRange = 64;

template <class... What>
[[noreturn]] void throw_impossible(const What&... what) {
  throw Error(ErrorKind::kCorrupt, str("a data reader of another node ", what...));
}

// These rows of the batch, which the ranges name.
Batches pick(const std::shared_ptr<arrow::RecordBatch>& batch, const std::vector<Rows>& ranges) {
  int64_t rows = 0;
  for (const Rows& range : ranges) rows += range.rows;
  Batches picked;
  if (rows == 0) return picked;
  if (rows / static_cast<int64_t>(ranges.size()) >= kShortRange || ranges.size() == 1) {
    for (const Rows& range : ranges) picked.push_back(batch->Slice(range.first_row, range.rows));
    return picked;
  }
  std::vector<uint32_t> indices;
  indices.reserve(static_cast<size_t>(rows));
  for (const Rows& range : ranges) {
    for (int64_t i = 0; i < range.rows; ++i)
      indices.push_back(static_cast<uint32_t>(range.first_row + i));
  }
  auto piece = to_piece(*batch);
  gather_all(piece, indices, [](const arrow::Array& column) { return column.null_count() > 0; });
  picked.push_back(arrow::RecordBatch::Make(batch->schema(), rows, std::move(piece.columns)));
  return picked;
}

// Those of the rows [begin, end) of a window that the ranges name, all counted from its first row.
Batches pick(const Batches& batches, const std::vector<Rows>& ranges) {
  Batches picked;
  auto range = ranges.begin();
  int64_t first_row = 0;
  for (const auto& batch : batches) {
    int64_t end = first_row + batch->num_rows();
    std::vector<Rows> here;
    for (; range != ranges.end() && range->first_row < end; ++range) {
      int64_t from = std::max(range->first_row, first_row);
      int64_t until = std::min(range->first_row + range->rows, end);
      if (from < until) here.push_back({from - first_row, until - from});
      if (range->first_row + range->rows > end) break;  // goes on in the next batch
    }
    Batches more = pick(batch, here);
    picked.insert(picked.end(), more.begin(), more.end());
    first_row = end;
  }
  return picked;
}

int64_t first_of_node(int64_t window, int node, int nodes) {
  return window + (node - window % nodes + nodes) % nodes;
}

}  // namespace

WindowExchange::WindowExchange(const OpenPass& open, int64_t windows,
                               std::vector<std::vector<int32_t>> ranks,
                               const ExchangeOptions& options)
    : options_(options),
      pass_(open.pass),
      dataset_(open.dataset),
      from_(open.from),
      windows_(windows),
      wanted_(ranks.size(), 0),
      next_unknown_(open.from.window),
      known_(open.from.window_first_row),
      window_(open.from.window),
      row_(open.from.rows) {
  // Else the pass would end at once, as one whose rows have all been taken.
  if (int64_t last = std::max<int64_t>(windows - 1, 0); open.from.window > last) {
    throw_bad_position(from_, dataset_,
                       str("there is no window ", from_.window, " in epoch ", from_.epoch,
                           ", which has the windows 0 to ", last));
  }
  int world = 0;
  for (const auto& each : ranks) world += static_cast<int>(each.size());
  StepRule rule{open.global_batch, open.smallest_rest, world, open.drop_last};
  for (size_t node = 0; node < ranks.size(); ++node) {
    rows_of_.emplace_back(rule, open.from.rows, std::move(ranks[node]));
    next_of_node_.push_back(
        first_of_node(open.from.window, static_cast<int>(node), options_.nodes));
  }
}

WindowRows WindowExchange::add_window(int64_t window, Batches batches, int64_t bytes) {
  WindowRows counted{pass_, window, count_rows(batches), bytes};
  if (counted.rows > 0) {
    Held& held = held_[window];
    held = {std::move(batches), counted.rows, bytes, {}, {}};
    for (int node = 0; node < options_.nodes; ++node) {
      if (!left_.contains(node)) held.wanted_by.insert(node);
    }
    held_bytes_ += bytes;
    if (held.wanted_by.empty()) release(window, options_.node);
  }
  set_count(options_.node, counted);
  return counted;
}

void WindowExchange::counted(int node, const WindowRows& rows) {
  if (node == options_.node) throw_impossible("counts a window of this one's");
  set_count(node, rows);
}

void WindowExchange::set_count(int node, const WindowRows& rows) {
  auto& next = next_of_node_[static_cast<size_t>(node)];
  if (rows.window != next || rows.window >= windows_) {
    throw_impossible("counts window ", rows.window, " of ", windows_, ", where window ", next,
                     " is its next");
  }
  if (rows.rows < 0 || rows.rows > kMaxRows || rows.bytes < 0 || rows.bytes > kMaxRows) {
    throw_impossible("says that window ", rows.window, " has ", rows.rows, " rows of ", rows.bytes,
                     " bytes");
  }
  next += options_.nodes;
  counted_[rows.window] = {rows.rows, rows.bytes, 0};
  number_windows();
}

void WindowExchange::number_windows() {
  for (auto found = counted_.find(next_unknown_); found != counted_.end();
       found = counted_.find(next_unknown_)) {
    found->second.first_row = known_;
    auto held = held_.find(next_unknown_);
    if (held != held_.end()) held->second.first_row = known_;
    known_ += found->second.rows;
    if (known_ > kMaxRows) throw_impossible("makes an epoch of ", known_, " rows");
    if (next_unknown_ == from_.window && known_ < from_.rows) {
      throw_bad_position(
          from_, dataset_,
          str("window ", from_.window, " has the rows before row ", known_, " only"));
    }
    ++next_unknown_;
  }
}

void WindowExchange::wants(int node, int64_t until) {
  auto& wanted = wanted_[static_cast<size_t>(node)];
  wanted = std::max(wanted, until);
}

void WindowExchange::passed(int node, int64_t window) { release(window, node); }

void WindowExchange::left(int node) {
  left_.insert(node);
  std::vector<int64_t> windows;
  for (const auto& [window, held] : held_) windows.push_back(window);
  for (int64_t window : windows) release(window, node);
}

void WindowExchange::release(int64_t window, int node) {
  auto found = held_.find(window);
  if (found == held_.end()) return;
  found->second.wanted_by.erase(node);
  if (!found->second.wanted_by.empty()) return;
  held_bytes_ -= found->second.bytes;
  held_.erase(found);
}

Batches WindowExchange::rows_for(int node, const AskRows& asked) const {
  auto found = held_.find(asked.window);
  int64_t first_row = asked.window_first_row;
  bool is_there = found != held_.end() && found->second.wanted_by.contains(node) &&
                  first_row >= 0 && first_row <= kMaxRows &&
                  found->second.first_row.value_or(first_row) == first_row &&
                  asked.begin >= first_row && asked.begin < asked.end &&
                  asked.end <= first_row + found->second.rows &&
                  (asked.total == NodeRows::kUnknown || asked.total >= asked.end);
  if (!is_there) {
    throw_impossible("asks for rows ", asked.begin, " to ", asked.end, " of window ", asked.window,
                     ", which are not here");
  }
  auto ranges = rows_of_[static_cast<size_t>(node)].in(asked.begin, asked.end, asked.total);
  if (ranges.empty()) {
    throw_impossible("asks for rows ", asked.begin, " to ", asked.end, ", none of which it takes");
  }
  for (Rows& range : ranges) range.first_row -= first_row;
  return pick(found->second.batches, ranges);
}

void WindowExchange::arrived(int node, uint64_t request, Batches batches) {
  for (Asked& asked : asked_) {
    if (asked.arrived || asked.node != node) continue;
    int64_t rows = count_rows(batches);
    if (asked.request != request || asked.rows != rows) {
      throw_impossible("sent ", rows, " rows as the answer to request ", request, ", where ",
                       asked.rows, " were asked for by request ", asked.request);
    }
    asked.batches = std::move(batches);
    asked.arrived = true;
    return;
  }
  throw_impossible("sent rows that nobody asked for");
}

std::vector<WindowExchange::ToSend> WindowExchange::advance() {
  std::vector<ToSend> out;
  if (left_.contains(options_.node)) return out;
  int64_t limit = ended() ? known_ : own().decided(known_);
  while (window_ < next_unknown_) {
    const Counted& window = counted_.at(window_);
    if (row_ >= window.first_row + window.rows) {
      if (owner(window_) == options_.node) {
        passed(options_.node, window_);
      } else if (window.rows > 0) {
        out.push_back({owner(window_), PassedWindow{pass_, window_}});
      }
      counted_.erase(window_++);
      continue;
    }
    bool is_full = !asked_.empty() && receiving_bytes_ >= options_.receive_bytes;
    if (row_ >= limit || is_full) break;
    Asked asked = next_asked(window, limit);
    AskRows ask{pass_,           asked.request, window_,    window.first_row,
                asked.first_row, asked.end_row, asked.total};
    if (asked.rows == 0) {
      asked.arrived = true;
    } else if (asked.node == options_.node) {
      asked.batches = rows_for(asked.node, ask);
      asked.arrived = true;
    } else {
      out.push_back({asked.node, ask});
    }
    receiving_bytes_ += asked.bytes;
    row_ = asked.end_row;
    asked_.push_back(std::move(asked));
  }
  return out;
}

WindowExchange::Asked WindowExchange::next_asked(const Counted& window, int64_t limit) {
  Asked asked;
  asked.window = window_;
  asked.window_first_row = window.first_row;
  asked.first_row = row_;
  asked.total = ended() ? known_ : NodeRows::kUnknown;
  int64_t row_bytes = std::max<int64_t>(window.bytes / window.rows, 1);
  int64_t rows = std::max<int64_t>(options_.ask_bytes / row_bytes, 1);
  int64_t end = std::min(limit, window.first_row + window.rows);
  asked.end_row = own().end_of(row_, end, asked.total, rows);
  asked.rows = own().count(row_, asked.end_row, asked.total);
  asked.bytes = asked.rows * row_bytes;
  asked.node = owner(window_);
  asked.request = next_request_++;
  return asked;
}

bool WindowExchange::may_decode() const {
  if (held_bytes_ < options_.hold_bytes) return true;
  if (ended() || owner(next_unknown_) != options_.node) return false;
  for (int node = 0; node < options_.nodes; ++node) {
    bool waits = wanted_[static_cast<size_t>(node)] > known_;
    if (!waits && !left_.contains(node)) return false;
  }
  return true;
}

WindowExchange::NeededRows WindowExchange::take() {
  MANTA_CHECK(ready(), "nothing is there to take");
  NeededRows needed = std::move(asked_.front());
  asked_.pop_front();
  receiving_bytes_ -= needed.bytes;
  return needed;
}

bool WindowExchange::over() const { return static_cast<int>(left_.size()) == options_.nodes; }

}  // namespace manta::data
