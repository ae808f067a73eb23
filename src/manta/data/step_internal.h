#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace manta::data {

/// How an epoch is cut into steps that all workers take together.
struct StepRule {
  int64_t global_batch = 1;  ///< Rows of a step, over all workers.
  int world_size = 1;
  bool drop_last = false;
};

/// Rows [first_row, first_row + rows) of the epoch.
struct Rows {
  int64_t first_row = 0;
  int64_t rows = 0;
  bool operator==(const Rows&) const = default;
};

/// How many rows after `position` must be known, or known not to exist, before the step that begins
/// there can be told.
int64_t rows_to_look_at(const StepRule& rule);

/// The step that begins at row `position`, or nothing at the end of the epoch. `known` rows of the
/// epoch are there; `ended` if that is all of it. A rest of under half a global batch, or one that
/// does not give every rank two rows, joins the last step; a larger one is a step of its own.
/// Throws Error(kInvalidArgument) naming `dataset` if it has fewer rows than workers. (Such a rest
/// in the middle of an epoch, after a restart with more workers, is left out with a warning.)
std::optional<Rows> next_step(const StepRule& rule, int64_t position, int64_t known, bool ended,
                              const std::string& dataset);

/// The part of a step that one rank takes.
Rows slice_of(const Rows& step, int rank, int world_size);

}  // namespace manta::data
