#include <arrow/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/schema.h>

#include <algorithm>

#include "manta/data/row_group_batches_internal.h"

namespace manta::data {

RowGroupBatches::RowGroupBatches(parquet::arrow::FileReader& file, std::vector<int> leaves,
                                 const Options& options)
    : most_rows_(options.most_rows), left_(options.rows) {
  auto& columns = *file.parquet_reader();
  auto row_group = options.coded ? columns.RowGroup(options.row_group) : nullptr;
  std::erase_if(leaves, [&](int leaf) {
    const std::string& name = columns.metadata()->schema()->GetColumnRoot(leaf)->name();
    auto field = options.coded ? options.coded->GetFieldByName(name) : nullptr;
    auto chunk = field ? CodedChunk::open(*row_group, leaf, *field->type()) : nullptr;
    if (!chunk) return false;
    coded_.push_back({name, std::move(chunk)});
    return true;
  });
  if (leaves.empty()) return;
  file.set_batch_size(most_rows_);
  PARQUET_ASSIGN_OR_THROW(others_, file.GetRecordBatchReader({options.row_group}, leaves));
}

RowGroupBatches::~RowGroupBatches() = default;

std::shared_ptr<arrow::RecordBatch> RowGroupBatches::next() {
  std::shared_ptr<arrow::RecordBatch> batch;
  if (others_) {
    PARQUET_THROW_NOT_OK(others_->ReadNext(&batch));
  } else if (left_ > 0) {
    batch = arrow::RecordBatch::Make(arrow::schema({}), std::min(most_rows_, left_),
                                     arrow::ArrayVector());
  }
  if (!batch) {
    bool is_end = std::all_of(coded_.begin(), coded_.end(),
                              [](const Coded& column) { return column.chunk->at_end(); });
    if (!is_end) throw parquet::ParquetException("a column has more rows than it should have");
    return nullptr;
  }
  left_ -= batch->num_rows();
  if (coded_.empty()) return batch;
  auto fields = batch->schema()->fields();
  auto arrays = batch->columns();
  for (auto& [name, chunk] : coded_) {
    arrays.push_back(chunk->next(batch->num_rows()));
    fields.push_back(arrow::field(name, arrays.back()->type()));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), batch->num_rows(), std::move(arrays));
}

}  // namespace manta::data
