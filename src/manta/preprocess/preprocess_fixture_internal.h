#pragma once

#include <arrow/api.h>

#include <cmath>
#include <string>
#include <vector>

#include "manta/data/parquet_fixture_internal.h"

namespace manta::preprocess {

/// For tests: columns from JSON, e.g. {"x", arrow::int64(), {1, nullptr}}.
struct TestColumn {
  std::string name;
  std::shared_ptr<arrow::DataType> type;
  Json values;
};

inline std::shared_ptr<arrow::RecordBatch> batch_of(const std::vector<TestColumn>& columns) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& column : columns) {
    fields.push_back(arrow::field(column.name, column.type));
    arrays.push_back(data::array_from_json(column.type, column.values));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), arrays.at(0)->length(), arrays);
}

/// A data set of the rows, in row groups of `row_group_rows`.
inline Dataset dataset_of(data::ParquetFolder& folder, const arrow::RecordBatch& batch,
                          int64_t row_group_rows, const std::string& name = "a.parquet") {
  auto table = check(arrow::Table::FromRecordBatches({batch.Slice(0)}), "a test table");
  return data::read_parquet(folder.write(name, *table, row_group_rows));
}

/// The numbers of a column; NaN where it is null.
inline std::vector<double> doubles(const arrow::RecordBatch& batch, const std::string& name) {
  auto column = std::dynamic_pointer_cast<arrow::DoubleArray>(batch.GetColumnByName(name));
  EXPECT_TRUE(column) << batch.schema()->ToString();
  std::vector<double> values;
  for (int64_t i = 0; column && i < column->length(); ++i) {
    values.push_back(column->IsNull(i) ? NAN : column->Value(i));
  }
  return values;
}

inline std::shared_ptr<arrow::RecordBatch> all_of(const Dataset& dataset) {
  return check(dataset.to_table()->CombineChunksToBatch(), "one batch");
}

}  // namespace manta::preprocess
