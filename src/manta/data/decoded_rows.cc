#include <arrow/record_batch.h>

#include <utility>

#include "manta/data/decoded_rows_internal.h"
#include "manta/data/row_bytes_internal.h"

namespace manta::data {

int64_t ByteBudget::left() const {
  std::lock_guard lock(mutex_);
  return left_;
}

bool ByteBudget::take(int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes > left_) return false;
  left_ -= bytes;
  return true;
}

void ByteBudget::give_back(int64_t bytes) {
  std::lock_guard lock(mutex_);
  left_ += bytes;
}

void DecodedRows::expect(int64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    if (bytes <= bytes_ + budget_->left()) return;
  }
  give_up();
}

void DecodedRows::expect_more(int64_t bytes) {
  if (bytes > budget_->left()) give_up();
}

std::shared_ptr<const Batches> DecodedRows::find(size_t fragment) const {
  std::lock_guard lock(mutex_);
  auto found = fragments_.find(fragment);
  return found == fragments_.end() ? nullptr : found->second;
}

bool DecodedRows::keeps() const {
  std::lock_guard lock(mutex_);
  return !given_up_;
}

void DecodedRows::keep(size_t fragment, Batches rows) {
  int64_t bytes = 0;
  for (const auto& batch : rows) bytes += bytes_of_batch(*batch);
  {
    std::lock_guard lock(mutex_);
    if (given_up_ || fragments_.contains(fragment)) return;
    if (budget_->take(bytes)) {
      bytes_ += bytes;
      fragments_[fragment] = std::make_shared<const Batches>(std::move(rows));
      return;
    }
  }
  give_up();
}

void DecodedRows::give_up() {
  decltype(fragments_) let_go;
  std::lock_guard lock(mutex_);
  given_up_ = true;
  let_go.swap(fragments_);
  budget_->give_back(std::exchange(bytes_, 0));
}

void FragmentToKeep::add(std::shared_ptr<arrow::RecordBatch> batch) {
  bytes_ += bytes_of_batch(*batch);
  to_->expect_more(bytes_);
  if (to_->keeps()) {
    rows_.push_back(std::move(batch));
  } else {
    rows_.clear();
  }
}

void FragmentToKeep::end() {
  if (keeps()) to_->keep(fragment_, std::move(rows_));
}

}  // namespace manta::data
