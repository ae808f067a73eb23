#pragma once

#include <memory>
#include <string>

#include "manta/data/dataset.h"
#include "manta/data/piece_internal.h"
#include "manta/data/stream_internal.h"

namespace manta::data {

/// One pass over a plan, read ahead on all processors, and cut into batches of a given number of
/// rows.
class BatchCutter {
 public:
  /// Throws Error(kInvalidArgument) naming `who` if the options make no sense.
  BatchCutter(std::shared_ptr<const Plan> plan, const BatchOptions& options,
              const std::string& who);

  /// The parts of the next batch: views of the rows that were read, none of them empty. No parts at
  /// the end.
  Batches next();

 private:
  const BatchOptions options_;
  Stream stream_;
  std::shared_ptr<arrow::RecordBatch> rest_;  ///< The rest of the last block that was taken.
};

}  // namespace manta::data
