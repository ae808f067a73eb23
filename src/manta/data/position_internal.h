#pragma once

#include <cstdint>
#include <string>

#include "manta/base/json.h"

namespace manta::data {

/// Where a worker is in a data set: the same on every worker, and enough to go on from there.
struct Position {
  int64_t epoch = 0;
  int64_t rows = 0;              ///< Of the epoch, taken by all workers together.
  int64_t window = 0;            ///< That the last of them is of: where reading must begin again,
  int64_t window_first_row = 0;  ///< and the row that this window begins with.

  bool operator==(const Position&) const = default;
  Json to_json() const;
  /// Throws Error(kCorrupt) naming the data set unless it is what `to_json` gives of a position
  /// that some data set can have. Whether this one has it, the reader finds out.
  static Position from_json(const Json& json, const std::string& dataset);
  template <class Archive>
  void serialize(Archive& archive) {
    archive(epoch, rows, window, window_first_row);
  }
};

/// Throws Error(kCorrupt) if no data set can be there: a number that is negative or beyond
/// kMaxRows, or rows outside of the window that they should be in.
void check_position(const Position& position, const std::string& dataset);
/// Throws Error(kCorrupt): `dataset` cannot go on there, and why.
[[noreturn]] void throw_bad_position(const Position& position, const std::string& dataset,
                                     const std::string& why);

}  // namespace manta::data
