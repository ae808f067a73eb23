#include <arrow/buffer.h>
#include <arrow/record_batch.h>

#include <utility>

#include "manta/data/decoded_rows_internal.h"
#include "manta/data/row_bytes_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kBytesOfColumn = 700;  // Arrow's own objects for an array: larger than ten
                                         // numbers

// Buffers of decoded rows are writable, and a user's function might write to them in place: the
// next epoch would then get the changed rows.
std::shared_ptr<arrow::ArrayData> read_only(const std::shared_ptr<arrow::ArrayData>& data) {
  if (!data) return nullptr;
  auto copy = data->Copy();
  for (auto& buffer : copy->buffers) {
    if (buffer && buffer->is_mutable()) buffer = arrow::SliceBuffer(buffer, 0);
  }
  for (auto& child : copy->child_data) child = read_only(child);
  copy->dictionary = read_only(copy->dictionary);
  return copy;
}

std::shared_ptr<arrow::RecordBatch> read_only(const arrow::RecordBatch& batch) {
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  for (const auto& column : batch.column_data()) columns.push_back(read_only(column));
  return arrow::RecordBatch::Make(batch.schema(), batch.num_rows(), std::move(columns));
}

int64_t bytes_kept(const arrow::RecordBatch& batch) {
  return bytes_of_batch(batch) + batch.num_columns() * kBytesOfColumn;
}

}  // namespace

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

std::shared_ptr<const Batches> DecodedRows::find(size_t fragment) const {
  std::lock_guard lock(mutex_);
  auto found = fragments_.find(fragment);
  return found == fragments_.end() ? nullptr : found->second;
}

bool DecodedRows::keeps() const {
  std::lock_guard lock(mutex_);
  return !given_up_;
}

bool DecodedRows::reserve(int64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    if (given_up_) return false;
    if (budget_->take(bytes)) return true;
  }
  give_up();
  return false;
}

void DecodedRows::release(int64_t bytes) { budget_->give_back(bytes); }

void DecodedRows::keep(size_t fragment, Batches rows, int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (given_up_ || fragments_.contains(fragment)) return budget_->give_back(bytes);
  bytes_ += bytes;
  fragments_[fragment] = std::make_shared<const Batches>(std::move(rows));
}

void DecodedRows::give_up() {
  decltype(fragments_) let_go;
  std::lock_guard lock(mutex_);
  given_up_ = true;
  let_go.swap(fragments_);
  budget_->give_back(std::exchange(bytes_, 0));
}

FragmentToKeep::FragmentToKeep(DecodedRows* to, size_t fragment)
    : to_(to && to->keeps() ? to : nullptr), fragment_(fragment) {}

std::shared_ptr<arrow::RecordBatch> FragmentToKeep::add(std::shared_ptr<arrow::RecordBatch> batch) {
  if (!to_) return batch;
  int64_t bytes = bytes_kept(*batch);
  // Another pass of the data set may have kept the fragment first.
  if (to_->find(fragment_) || !to_->reserve(bytes)) {
    let_go();
    return batch;
  }
  bytes_ += bytes;
  return rows_.emplace_back(read_only(*batch));
}

void FragmentToKeep::end() {
  if (to_) to_->keep(fragment_, std::move(rows_), std::exchange(bytes_, 0));
}

void FragmentToKeep::let_go() {
  rows_.clear();
  if (to_) to_->release(std::exchange(bytes_, 0));
  to_ = nullptr;
}

int64_t bytes_to_keep(int64_t rows, int64_t bytes_of_row, int columns, int64_t piece_rows) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(rows, bytes_of_row, &bytes)) return INT64_MAX;
  int64_t pieces = rows / piece_rows + 1;
  return __builtin_add_overflow(bytes, pieces * columns * kBytesOfColumn, &bytes) ? INT64_MAX
                                                                                  : bytes;
}

}  // namespace manta::data
