#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/stored_reader_internal.h"

namespace manta::data {

StoredReader::StoredReader(std::shared_ptr<const StoredRows> rows, std::vector<std::string> columns)
    : rows_(std::move(rows)), columns_(std::move(columns)) {}

BatchPtr StoredReader::next() {
  while (waiting_.empty()) {
    if (next_fragment_ == rows_->fragments().size()) return nullptr;
    waiting_ = rows_->read(next_fragment_++, columns_);
    std::reverse(waiting_.begin(), waiting_.end());
  }
  auto batch = std::move(waiting_.back());
  waiting_.pop_back();
  return batch;
}

BatchPtr StoredReader::next(int64_t rows) {
  Batches parts;
  while (rows > 0) {
    auto batch = next();
    if (!batch) break;
    if (batch->num_rows() > rows) {
      waiting_.push_back(batch->Slice(rows));
      batch = batch->Slice(0, rows);
    }
    rows -= batch->num_rows();
    parts.push_back(std::move(batch));
  }
  MANTA_CHECK(!parts.empty(), "reading past the last stored row");
  return concatenate(parts);
}

}  // namespace manta::data
