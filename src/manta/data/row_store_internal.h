#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/data/operation_internal.h"
#include "manta/io/new_file_internal.h"

namespace manta::data {

/// Rows of a materialising operation, fragment after fragment.
class StoredRows {
 public:
  virtual ~StoredRows() = default;

  /// Null if no schema was known and no row came.
  const SchemaPtr& schema() const { return schema_; }
  /// How many rows each has.
  const std::vector<int64_t>& fragments() const { return fragments_; }
  int64_t rows() const { return rows_; }
  int64_t bytes() const { return bytes_; }
  /// The rows of a fragment, with these columns. Several threads may call it.
  virtual Batches read(size_t fragment, const std::vector<std::string>& columns) const = 0;

 protected:
  void add_fragment(int64_t rows, int64_t bytes);

  SchemaPtr schema_;

 private:
  std::vector<int64_t> fragments_;
  int64_t rows_ = 0, bytes_ = 0;
};

/// Writes them to a file. Fragments are cut after kPieceRows rows, or where one more row would make
/// 32 MiB: a matter of the rows alone, however they come in batches.
class RowStore final : public RowSink {
 public:
  /// `schema`: if no row comes; else that of the first batch counts. `what`: for errors, "the rows
  /// of sort(fare)"; so is `expected_rows`, if it is known how many come.
  RowStore(SchemaPtr schema, std::string what, WorkCountPtr work = nullptr,
           std::optional<int64_t> expected_rows = std::nullopt);
  ~RowStore() override;

  void add(const std::shared_ptr<arrow::RecordBatch>& batch) override;
  void end_fragment() override;
  void cut_only_where_told(int64_t most_bytes) override { most_block_bytes_ = most_bytes; }
  void use(std::shared_ptr<const StoredRows> rows) override;
  /// Nothing can be added any more.
  std::shared_ptr<const StoredRows> finish();

 private:
  class FileRows;
  struct OpenFragment;
  void flush();
  void write(const arrow::RecordBatch& batch);
  void close_fragment();
  void written(const arrow::Status& status) const;
  template <class T>
  T written(arrow::Result<T> result) const {
    written(result.status());
    return std::move(result).ValueUnsafe();
  }

  const std::string what_;
  const WorkCountPtr work_;
  const std::optional<int64_t> expected_rows_;
  const std::string folder_;
  std::shared_ptr<FileRows> stored_;
  std::shared_ptr<const StoredRows> used_;
  Batches waiting_;
  int64_t waiting_rows_ = 0, waiting_bytes_ = 0;
  std::optional<int64_t> most_block_bytes_;  ///< Fragments end where told only.
  bool begun_ = false;
  std::unique_ptr<OpenFragment> open_;
};

/// Whether fragments of rows with at most so many bytes each, by `bytes_of_rows`, are cut after
/// kPieceRows rows only.
bool is_cut_by_rows_only(int64_t most_bytes_of_row);

}  // namespace manta::data
