#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/batch_cutter_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/processors_internal.h"
#include "manta/data/recycling_pool_internal.h"

namespace manta::data {
namespace {

BatchOptions checked(const BatchOptions& options, const std::string& who) {
  if (options.batch_size < 1) {
    throw Error(ErrorKind::kInvalidArgument,
                str(who, " needs a batch_size of at least 1, not ", options.batch_size));
  }
  if (options.epoch < 0) {
    throw Error(ErrorKind::kInvalidArgument,
                str(who, " needs an epoch of at least 0, not ", options.epoch));
  }
  return options;
}

}  // namespace

BatchCutter::BatchCutter(std::shared_ptr<const Plan> plan, const BatchOptions& options,
                         const std::string& who)
    : options_(checked(options, who)),
      stream_(std::move(plan), {.epoch = options_.epoch},
              {.threads = all_processors(), .progress = who}) {}

Batches BatchCutter::next() {
  Batches parts;
  int64_t missing = options_.batch_size;
  while (missing > 0) {
    if (!rest_) {
      auto block = stream_.next();
      if (!block) break;
      rest_ = std::move(block->batch);
    }
    if (rest_->num_rows() > missing) {
      parts.push_back(rest_->Slice(0, missing));
      rest_ = rest_->Slice(missing);
      missing = 0;
    } else {
      missing -= rest_->num_rows();
      parts.push_back(std::move(rest_));
    }
  }
  if (missing > 0 && options_.drop_last) parts.clear();
  return parts;
}

struct BatchRange::Impl {
  BatchCutter cutter;
  std::shared_ptr<arrow::RecordBatch> current;
};

BatchRange::BatchRange(std::shared_ptr<const Plan> plan, const BatchOptions& options)
    : impl_(new Impl{BatchCutter(std::move(plan), options, "iter_batches"), nullptr}) {}
BatchRange::~BatchRange() = default;
BatchRange::BatchRange(BatchRange&&) noexcept = default;

BatchRange::Iterator BatchRange::begin() {
  advance();
  return Iterator(this);
}
const std::shared_ptr<arrow::RecordBatch>& BatchRange::current() const { return impl_->current; }
void BatchRange::advance() {
  Batches parts = impl_->cutter.next();
  // Mostly the batch before is gone by then, whose memory is warm.
  impl_->current = parts.empty() ? nullptr : concatenate(parts, &RecyclingPool::instance());
}

}  // namespace manta::data
