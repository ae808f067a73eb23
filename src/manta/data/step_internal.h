#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace manta::data {

/// How an epoch is cut into steps that all workers take together.
struct StepRule {
  int64_t global_batch = 1;   ///< Rows of a step, of all workers together.
  int64_t smallest_rest = 1;  ///< A rest of at least this many rows is a step; a shorter rest joins
                              ///< the last step.
  int world_size = 1;
  bool drop_last = false;
};

/// The rule for what a user asked for. With a `global_batch_size` (not 0) the steps depend on it
/// and on the data only, so it must be so large that any number of rows gives every worker a row in
/// every step: half of it, rounded up, for each worker. Otherwise a step has `batch_size` rows for
/// each worker, and a rest that does not give every worker two rows joins the last step. Throws
/// Error(kInvalidArgument) naming `dataset`.
StepRule make_step_rule(int64_t batch_size, int64_t global_batch_size, bool drop_last,
                        int world_size, const std::string& dataset);

/// Rows [first_row, first_row + rows) of the epoch.
struct Rows {
  int64_t first_row = 0;
  int64_t rows = 0;
  bool operator==(const Rows&) const = default;
};

/// How many rows after `position` must be known to exist, or not to exist, before the step that
/// begins there is determined.
int64_t rows_to_look_at(const StepRule& rule);

/// The step that begins at row `position`, or nothing at the end of the epoch. `known` rows of the
/// epoch are there; `ended` if that is all of it. Throws Error(kInvalidArgument) naming `dataset`
/// if fewer rows than workers are left. That can happen only where an iteration begins: with an
/// epoch that is too small, or at a position that comes from fewer workers or another batch size.
std::optional<Rows> next_step(const StepRule& rule, int64_t position, int64_t known, bool ended,
                              const std::string& dataset);

/// The part of a step that one rank takes.
Rows slice_of(const Rows& step, int rank, int world_size);

}  // namespace manta::data
