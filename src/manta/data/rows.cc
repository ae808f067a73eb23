#include <arrow/api.h>

#include <set>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/plan_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

constexpr int64_t kRowsAtATime = 4096;

void add_input_files(const Plan& plan, std::set<std::string>& seen,
                     std::vector<std::string>& files) {
  for (auto& file : plan.source->files()) {
    if (seen.insert(file).second) files.push_back(std::move(file));
  }
  for (const auto& operation : plan.operations) {
    for (const auto& inner : operation->inner_plans()) add_input_files(*inner, seen, files);
  }
}

}  // namespace

RowRange::RowRange(const Dataset& dataset, int64_t epoch)
    : batches_(dataset.iter_batches({.batch_size = kRowsAtATime, .epoch = epoch})) {}

RowRange::Iterator RowRange::begin() {
  batch_.emplace(batches_.begin());
  index_ = 0;
  set_current();
  return Iterator(this);
}

void RowRange::advance() {
  ++index_;
  if (index_ == (**batch_)->num_rows()) {
    ++*batch_;
    index_ = 0;
  }
  set_current();
}

void RowRange::set_current() {
  ended_ = *batch_ == std::default_sentinel;
  if (!ended_) current_ = Row(**batch_, index_);
}

}  // namespace data

data::RowRange Dataset::iter_rows(const RowOptions& options) const {
  return data::RowRange(*this, options.epoch);
}

std::shared_ptr<arrow::RecordBatch> Dataset::take_batch(int64_t rows) const {
  if (rows < 0) {
    throw Error(ErrorKind::kInvalidArgument,
                str("take_batch needs a number of rows of at least 0, not ", rows));
  }
  return check(take(rows)->CombineChunksToBatch(), "take_batch");
}

std::vector<std::string> Dataset::input_files() const {
  std::vector<std::string> files;
  std::set<std::string> seen;
  data::add_input_files(*plan_, seen, files);
  return files;
}

}  // namespace manta
