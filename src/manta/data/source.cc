#include <arrow/api.h>
#include <arrow/util/io_util.h>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/plan_internal.h"
#include "manta/data/source_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {

Error read_error(const arrow::Status& status, const std::string& doing) {
  std::string what = str(doing, ": ", status_text(status));
  if (status.IsOutOfMemory() || status.IsCapacityError()) {
    return Error(ErrorKind::kResources,
                 what + "; read fewer columns or smaller row groups, or give it more memory; " +
                     describe_limits());
  }
  if (status.IsCancelled()) return Error(ErrorKind::kCancelled, what);
  if (status.IsNotImplemented()) {
    return Error(ErrorKind::kInvalidArgument,
                 what +
                     "; this is not supported: write the file in another way, or leave the "
                     "column out");
  }
  // The Parquet library calls damage an I/O error, too, but then there is no errno.
  if (status.IsIOError() && arrow::internal::ErrnoFromStatus(status) != 0) {
    return Error(ErrorKind::kIo, what);
  }
  return Error(ErrorKind::kCorrupt,
               what +
                   "; the file is damaged, or has a feature that cannot be read: write it again, "
                   "or leave it out");
}

Dataset dataset_of(std::shared_ptr<Source> source) {
  auto plan = std::make_shared<Plan>();
  plan->source = std::move(source);
  plan->columns = plan->source->schema()->field_names();
  return Dataset(std::move(plan));
}

}  // namespace manta::data
