#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/pipeline_internal.h"
#include "manta/data/processors_internal.h"
#include "manta/data/stream_internal.h"

namespace manta::data {

struct BatchRange::Impl {
  Impl(std::shared_ptr<const Plan> plan, const BatchOptions& batch_options)
      : options(batch_options),
        stream(std::move(plan), {.epoch = options.epoch},
               {.threads = all_processors(), .progress = "iter_batches"}) {}

  // Takes blocks until a whole batch is there, or the data ends.
  void advance() {
    current = nullptr;
    while (waiting_rows < options.batch_size) {
      auto block = stream.next();
      if (!block) break;
      waiting_rows += block->batch->num_rows();
      waiting.push_back(std::move(block->batch));
    }
    if (waiting_rows == 0 || (waiting_rows < options.batch_size && options.drop_last)) return;
    Batches parts;
    int64_t missing = std::min(options.batch_size, waiting_rows);
    waiting_rows -= missing;
    size_t used = 0;
    while (missing > 0) {
      auto& batch = waiting[used];
      if (batch->num_rows() > missing) {
        parts.push_back(batch->Slice(0, missing));
        batch = batch->Slice(missing);
        missing = 0;
      } else {
        missing -= batch->num_rows();
        parts.push_back(std::move(batch));
        ++used;
      }
    }
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(used));
    current = rechunk(parts, options.batch_size)[0];
  }

  const BatchOptions options;
  Stream stream;
  Batches waiting;
  int64_t waiting_rows = 0;
  std::shared_ptr<arrow::RecordBatch> current;
};

BatchRange::BatchRange(std::shared_ptr<const Plan> plan, const BatchOptions& options) {
  if (options.batch_size < 1) {
    throw Error(ErrorKind::kInvalidArgument,
                str("iter_batches needs a batch_size of at least 1, not ", options.batch_size));
  }
  if (options.epoch < 0) {
    throw Error(ErrorKind::kInvalidArgument,
                str("iter_batches needs an epoch of at least 0, not ", options.epoch));
  }
  impl_ = std::make_unique<Impl>(std::move(plan), options);
}
BatchRange::~BatchRange() = default;
BatchRange::BatchRange(BatchRange&&) noexcept = default;

BatchRange::Iterator BatchRange::begin() {
  advance();
  return Iterator(this);
}
const std::shared_ptr<arrow::RecordBatch>& BatchRange::current() const { return impl_->current; }
void BatchRange::advance() { impl_->advance(); }

}  // namespace manta::data
