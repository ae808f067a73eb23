#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace arrow {
class Array;
class DataType;
class RecordBatch;
class Schema;
}  // namespace arrow

namespace parquet {
class ParquetFileReader;
class RowGroupReader;
}  // namespace parquet

namespace manta::data {

/// A column of a row group, read without looking up its values: as the codes that its pages have,
/// and the dictionary that they mean. That takes a fraction of the time and memory of the values.
class CodedChunk {
 public:
  /// Null for a column that must be read in another way: one of its pages has values and not codes,
  /// it is nested, or its values are not stored as Arrow has them. `type`: that of the column.
  static std::unique_ptr<CodedChunk> open(parquet::RowGroupReader& row_group, int leaf,
                                          const arrow::DataType& type);
  virtual ~CodedChunk() = default;

  /// The next rows, of type dictionary<int32, type>; all have the same dictionary. Throws
  /// parquet::ParquetException if the file is damaged, or has fewer.
  virtual std::shared_ptr<arrow::Array> next(int64_t rows) = 0;
};

/// The columns of a row group that can be read so.
class CodedColumns {
 public:
  CodedColumns() = default;
  /// Takes its columns out of `leaves`, which are those of the file that are wanted. `schema`: all
  /// columns of the data, by their names.
  CodedColumns(parquet::ParquetFileReader& file, int row_group, const arrow::Schema& schema,
               std::vector<int>& leaves);

  bool empty() const { return columns_.empty(); }
  /// The next rows: the columns of `others`, which have been read in another way, and these.
  std::shared_ptr<arrow::RecordBatch> next(const arrow::RecordBatch& others);

 private:
  struct Column {
    std::string name;
    std::unique_ptr<CodedChunk> chunk;
  };
  std::vector<Column> columns_;
};

}  // namespace manta::data
