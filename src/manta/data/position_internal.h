#pragma once

#include <cstdint>
#include <string>

#include "manta/base/json.h"

namespace manta::data {

/// The position in a data set: the same on every worker, and enough to resume from there.
struct Position {
  int64_t epoch = 0;
  int64_t rows = 0;              ///< Rows of the epoch that all workers together have taken.
  int64_t window = 0;            ///< The window of the last of these rows, where reading must begin
                                 ///< again,
  int64_t window_first_row = 0;  ///< and the first row of that window.

  bool operator==(const Position&) const = default;
  Json to_json() const;
  /// Throws Error(kCorrupt), which names the data set, unless the JSON comes from `to_json` and
  /// some data set can have the position. The reader checks whether this data set has it.
  static Position from_json(const Json& json, const std::string& dataset);
  template <class Archive>
  void serialize(Archive& archive) {
    archive(epoch, rows, window, window_first_row);
  }
};

/// Throws Error(kCorrupt) if no data set can have the position: a number is negative or beyond
/// kMaxRows, or the rows lie outside their window.
void check_position(const Position& position, const std::string& dataset);
/// Throws Error(kCorrupt): `dataset` cannot go on there, and why.
[[noreturn]] void throw_bad_position(const Position& position, const std::string& dataset,
                                     const std::string& why);

}  // namespace manta::data
