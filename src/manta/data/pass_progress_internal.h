#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "manta/base/status_line_internal.h"

namespace manta::data {

/// "write_parquet: 1.20 M rows, 300.0 k rows/s, 96.0 MB, 40%, 6 s left". `done`: the part of the
/// pass that is over, 0 to 1; if it is not known, the text does not mention the rest.
std::string progress_text(const std::string& what, int64_t rows, int64_t bytes, double seconds,
                          double done);

/// The line of a pass on the terminal, if standard error is one and the pass takes longer than a
/// second.
class PassProgress {
 public:
  /// Whether there are a terminal and a name to show.
  static bool wanted(const std::string& what);
  explicit PassProgress(std::string what) : what_(std::move(what)) {}

  void add(int64_t rows, int64_t bytes) {
    rows_ += rows;
    bytes_ += bytes;
  }
  /// Shows the progress, now and then.
  void update(double done);

 private:
  using Clock = std::chrono::steady_clock;
  const std::string what_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_ = begin_ + std::chrono::seconds(1);
  int64_t rows_ = 0, bytes_ = 0;
  StatusLine line_;
};

}  // namespace manta::data
