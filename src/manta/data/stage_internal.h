#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "manta/data/plan_internal.h"
#include "manta/data/stream_internal.h"

/// A plan is a chain of stages. Within a stage rows stream; an operation that materialises (a sort)
/// ends one, and the rows that it gives, in memory or in a temporary file (row_store_internal.h),
/// are the source of the next. Whoever runs a plan runs the last stage, whose fragments, windows
/// and row numbers are those that everybody sees.
namespace manta::data {

/// The plan up to its first operation that materialises: what reads the files. Of the columns it
/// gives those that somebody needs later. The plan itself if it is one stage.
std::shared_ptr<const Plan> first_stage(const std::shared_ptr<const Plan>& plan);

/// The plan behind its last operation that materialises, over the rows which that gives in this
/// epoch: all stages before are run to their ends, and what is returned owns the rows. The plan
/// itself if it is one stage. `stopping` is asked now and then; once it is true, null comes back.
/// Throws what reading or an operation threw.
std::shared_ptr<const Plan> last_stage(const std::shared_ptr<const Plan>& plan, int64_t epoch,
                                       const StreamOptions& options,
                                       const std::function<bool()>& stopping = {});

/// The same for a thread with a StopCheck, if it has one: throws Error(kCancelled) once nobody
/// wants the rows any more.
std::shared_ptr<const Plan> wanted_stage(const std::shared_ptr<const Plan>& plan, int64_t epoch,
                                         const StreamOptions& options);

/// Whether the rows that `last_stage` makes are others, or in another order, in another
/// epoch.
bool stages_depend_on_epoch(const Plan& plan);

/// The rows that a source of a later stage has; null of any other source.
std::shared_ptr<const StoredRows> stored_rows(const Source& source);

/// How many rows were read from files to make the rows of this source, if it is of a later stage.
std::optional<int64_t> rows_decoded_for(const Source& source);

}  // namespace manta::data
