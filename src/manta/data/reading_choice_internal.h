#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "manta/data/plan_internal.h"
#include "manta/data/position_internal.h"

/// How the hosts of a training group read a data set: each of them all of it, or each some of its
/// windows, of which the others are sent the rows that they need (window_exchange_internal.h).
namespace manta::data {

/// What reading some windows has shown, on one thread.
struct MeasuredReading {
  int64_t windows_left = 0;  ///< Of the epoch, from where the pass begins.
  int64_t windows = 0;       ///< That count.
  double seconds = 0;        ///< What they took, without waits for a processor,
  int64_t bytes = 0;         ///< and gave.
};

/// Reads the first windows of a pass: one, or up to three until they have taken 0.1 seconds. The
/// first of several does not count: it opens the files. What they give is dropped. `plan` is of one
/// stage. Throws what reading throws, Error(kCorrupt) if there is
/// no such position.
MeasuredReading measure_reading(const std::shared_ptr<const Plan>& plan, const Position& from);
using MeasureReading =
    std::function<MeasuredReading(const std::shared_ptr<const Plan>& plan, const Position& from)>;

/// What else the choice depends on.
struct ReadingFacts {
  int nodes = 1;
  int threads = 1;  ///< That read on each of them.
  /// Of rows from one to another, encryption at both ends included.
  double bytes_per_second = 0;
};

struct ReadingChoice {
  bool split = false;
  std::string why;  ///< For the log.
};

/// Splits if that takes less than 0.8 of the time that reading everything takes: the windows that a
/// host reads, and the rows that it sends and receives.
ReadingChoice choose_reading(const MeasuredReading& measured, const ReadingFacts& facts);

/// Why the reading of a plan cannot be split; empty if it can.
std::string why_not_split(const Plan& plan);

}  // namespace manta::data
