#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "manta/data/plan_internal.h"
#include "manta/data/stream_internal.h"

/// A plan is a chain of stages. Within a stage rows stream; an operation that materialises (a sort)
/// ends one, and the rows that it gives, in memory or in a temporary file (row_store_internal.h),
/// are the source of the next. Running a plan means running its last stage, whose fragments,
/// windows and row numbers are those that callers see.
namespace manta::data {

/// The plan up to its first operation that materialises: the part that reads the files. It gives
/// only the columns that are used later. The plan itself if it is one stage.
std::shared_ptr<const Plan> first_stage(const std::shared_ptr<const Plan>& plan);

/// The part of the plan after its last operation that materialises, over the rows that this
/// operation gives in this epoch. All stages before are run to their ends, and the returned plan
/// owns the rows. The plan itself if it is one stage. Calls `stopping` now and then, and returns
/// null once it is true. Throws what reading or an operation threw.
std::shared_ptr<const Plan> last_stage(const std::shared_ptr<const Plan>& plan, int64_t epoch,
                                       const StreamOptions& options,
                                       const std::function<bool()>& stopping = {});

/// The same for a thread with a StopCheck, if it has one: throws Error(kCancelled) once the rows
/// are not wanted any more.
std::shared_ptr<const Plan> wanted_stage(const std::shared_ptr<const Plan>& plan, int64_t epoch,
                                         const StreamOptions& options);

/// Whether the rows that `last_stage` makes, or their order, differ between epochs.
bool stages_depend_on_epoch(const Plan& plan);

/// The rows of a source of a later stage; null for any other source.
std::shared_ptr<const StoredRows> stored_rows(const Source& source);

/// How many rows were read from files to make the rows of this source, if it is of a later stage.
std::optional<int64_t> rows_decoded_for(const Source& source);

}  // namespace manta::data
