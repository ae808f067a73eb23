#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"

namespace manta {

/// Decides which lines of many workers are shown: a text that repeats is shown once, and later once
/// more with a count. Does no I/O; not thread-safe.
///
/// A line is a repeat if its text is equal to one that was shown less than kWindow ago. The worker
/// that said it first may say it kFromOne times, so that a table with two equal rows stays a table.
/// Empty and very long lines are always shown.
class RepeatedLines {
 public:
  static constexpr std::chrono::milliseconds kWindow{1000};
  static constexpr int kFromOne = 3;

  /// True if the line is to be shown; otherwise it has been counted.
  bool is_new(const std::string& worker, std::string_view line, Clock::time_point now);
  /// The counts of texts whose window has ended, as lines to show, in the order in which they first
  /// came: "(rank-1) text [repeated 12x across workers]". All of them if `last`.
  std::string take_counts(Clock::time_point now, bool last = false);
  /// False if nothing is remembered: then no count will come.
  bool waits() const { return !texts_.empty(); }

 private:
  struct Text {
    std::string first;  // the worker that said it
    int shown = 1;
    int hidden = 0;
    std::string latest;  // the worker of the last hidden line
    bool by_others = false;
    Clock::time_point until;
    uint64_t order = 0;
  };
  std::unordered_map<std::string, Text> texts_;
  uint64_t next_order_ = 0;
};

}  // namespace manta
