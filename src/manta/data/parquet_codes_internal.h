#pragma once

#include <cstdint>
#include <memory>

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace parquet {
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
  virtual bool at_end() = 0;
};

}  // namespace manta::data
