#pragma once

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/json/from_string.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <string>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/json.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/stream_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {

/// For tests: a temporary folder with Parquet files in it.
class ParquetFolder : public TemporaryFolder {
 public:
  std::string file(const std::string& name) const { return *this / name; }

  std::string write(const std::string& name, const arrow::Table& table, int64_t row_group_rows) {
    auto out = check(arrow::io::FileOutputStream::Open(file(name)), "opening a test file");
    check(parquet::arrow::WriteTable(table, arrow::default_memory_pool(), out, row_group_rows),
          "writing a test file");
    check(out->Close(), "writing a test file");
    return file(name);
  }

  /// Writes as Arrow's own programs do: it stores types that Parquet does not have next to the
  /// data.
  std::string write_with_schema(
      const std::string& name, const arrow::Table& table, int64_t row_group_rows,
      const std::shared_ptr<parquet::WriterProperties>& as = parquet::default_writer_properties()) {
    auto out = check(arrow::io::FileOutputStream::Open(file(name)), "opening a test file");
    auto properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    check(parquet::arrow::WriteTable(table, arrow::default_memory_pool(), out, row_group_rows, as,
                                     properties),
          "writing a test file");
    check(out->Close(), "writing a test file");
    return file(name);
  }

  /// Rows `first` to `first + rows`: id (int64), half (double: id / 2, null where id % 7 is 3),
  /// text.
  std::string write_rows(const std::string& name, int64_t first, int64_t rows,
                         int64_t row_group_rows) {
    arrow::Int64Builder id;
    arrow::DoubleBuilder half;
    arrow::StringBuilder text;
    for (int64_t i = first; i < first + rows; ++i) {
      check(id.Append(i), "id");
      check(i % 7 == 3 ? half.AppendNull() : half.Append(static_cast<double>(i) / 2), "half");
      check(text.Append(str("t", i % 10)), "text");
    }
    auto table = arrow::Table::Make(
        arrow::schema({arrow::field("id", arrow::int64()), arrow::field("half", arrow::float64()),
                       arrow::field("text", arrow::utf8())}),
        {check(id.Finish(), "id"), check(half.Finish(), "half"), check(text.Finish(), "text")});
    return write(name, *table, row_group_rows);
  }
};

inline std::shared_ptr<arrow::Array> array_from_json(const std::shared_ptr<arrow::DataType>& type,
                                                     const Json& values) {
  return check(arrow::json::ArrayFromJSONString(type, values.dump()), "making a test column");
}

/// A column "id" of 0, 1, ..., in chunks.
inline std::shared_ptr<arrow::Table> table_of_ids(int64_t rows, int64_t chunk_rows) {
  arrow::ArrayVector chunks;
  for (int64_t first = 0; first < rows; first += chunk_rows) {
    arrow::Int64Builder builder;
    for (int64_t i = first; i < std::min(rows, first + chunk_rows); ++i) {
      check(builder.Append(i), "id");
    }
    chunks.push_back(check(builder.Finish(), "id"));
  }
  auto column = check(arrow::ChunkedArray::Make(chunks, arrow::int64()), "id");
  return arrow::Table::Make(arrow::schema({arrow::field("id", arrow::int64())}), {column}, rows);
}

/// The values of a column of int64.
inline std::vector<int64_t> ints(const arrow::RecordBatch& batch, const std::string& name) {
  auto column = std::static_pointer_cast<arrow::Int64Array>(batch.GetColumnByName(name));
  return {column->raw_values(), column->raw_values() + column->length()};
}

inline std::vector<int64_t> ints(const arrow::Table& table, const std::string& name) {
  std::vector<int64_t> values;
  arrow::TableBatchReader reader(table);
  std::shared_ptr<arrow::RecordBatch> batch;
  while (reader.ReadNext(&batch).ok() && batch) {
    auto more = ints(*batch, name);
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

/// All of a stream's rows of column "id", checking that blocks follow each other.
inline std::vector<int64_t> read_ids(const std::shared_ptr<const Plan>& plan,
                                     StreamStart start = {}, StreamOptions options = {}) {
  Stream stream(plan, start, options);
  std::vector<int64_t> ids;
  int64_t window = -1, window_first_row = 0;
  while (auto block = stream.next()) {
    EXPECT_GT(block->batch->num_rows(), 0);
    EXPECT_LE(block->batch->num_rows(), options.max_block_rows);
    auto position = start.window_first_row + static_cast<int64_t>(ids.size());
    EXPECT_EQ(block->first_row, position);
    if (block->window != window) {
      EXPECT_GT(block->window, window);
      window = block->window;
      window_first_row = position;
    }
    EXPECT_EQ(block->window_first_row, window_first_row);
    auto more = ints(*block->batch, "id");
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

using manta::message_of;

/// The message of the error that the call throws; checks its kind.
template <class Call>
std::string message_of(ErrorKind kind, Call&& call) {
  Error error = error_of(call);
  EXPECT_EQ(kind_name(error.kind()), kind_name(kind)) << error.what();
  return error.what();
}

}  // namespace manta::data
