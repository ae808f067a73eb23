#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <iterator>
#include <utility>

#include "manta/data/block_collector_internal.h"

namespace manta::data {
BlockRows slice(const BlockRows& rows, int64_t begin, int64_t end) {
  BlockRows part{rows.batch->Slice(begin, end - begin),
                 rows.first_row + begin,
                 rows.first_row + end,
                 {},
                 rows.known,
                 rows.total};
  for (const auto& window : rows.windows) {
    if (window.first_row >= rows.first_row + end) break;
    if (window.first_row <= part.first_row) part.windows.clear();
    part.windows.push_back(window);
  }
  part.windows.front().first_row = part.first_row;
  return part;
}

void BlockCollector::add(StreamBlock block) {
  int64_t end_row = block.first_row + block.batch->num_rows();
  Batches batches = {std::move(block.batch)};
  add_some(block, end_row, std::move(batches));
}

void BlockCollector::add_some(const StreamBlock& block, int64_t end_row, Batches batches) {
  if (empty()) first_row_ = block.first_row;
  if (windows_.empty() || windows_.back().window != block.window) {
    windows_.push_back({block.first_row, block.window, block.window_first_row});
  }
  end_row_ = end_row;
  bytes_ += block.bytes;
  std::move(batches.begin(), batches.end(), std::back_inserter(batches_));
}

BlockRows BlockCollector::take() {
  BlockRows collected{nullptr, first_row_, end_row_, std::exchange(windows_, {})};
  if (!batches_.empty()) collected.batch = concatenate(batches_);
  batches_.clear();
  bytes_ = 0;
  return collected;
}

std::shared_ptr<arrow::RecordBatch> conform(const std::shared_ptr<arrow::RecordBatch>& batch,
                                            const std::shared_ptr<arrow::Schema>& schema) {
  if (batch->schema() == schema) return batch;
  return arrow::RecordBatch::Make(schema, batch->num_rows(), batch->columns());
}

}  // namespace manta::data
