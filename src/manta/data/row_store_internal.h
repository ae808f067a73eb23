#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/operation_internal.h"
#include "manta/io/new_file_internal.h"

namespace manta::data {

/// Rows of a materialising operation in a file, as Arrow IPC: fragment after fragment. The file has
/// no name, so it goes away with the last who reads it, also if the process is killed. A fragment
/// is mapped while somebody holds its rows, and costs memory only as the page cache does.
class StoredRows {
 public:
  struct Extent {
    int64_t offset = 0, size = 0, rows = 0;
  };

  /// Null if no schema was known and no row came.
  const SchemaPtr& schema() const { return schema_; }
  const std::vector<Extent>& extents() const { return extents_; }
  int64_t rows() const { return rows_; }
  int64_t bytes() const { return bytes_; }
  /// The rows of a fragment, with these columns.
  Batches read(size_t fragment, const std::vector<std::string>& columns) const;

 private:
  friend class RowStore;
  std::shared_ptr<const NewFile> file_;
  SchemaPtr schema_;
  std::vector<Extent> extents_;
  int64_t rows_ = 0, bytes_ = 0;
};

/// Writes them. Fragments are cut after kPieceRows rows, or where one more row would make 32 MiB: a
/// matter of the rows alone, however they come in batches.
class RowStore final : public RowSink {
 public:
  /// `schema`: if no row comes; else that of the first batch counts. `what`: for errors, "the rows
  /// of sort(fare)".
  RowStore(SchemaPtr schema, std::string what);
  ~RowStore() override;

  void add(const std::shared_ptr<arrow::RecordBatch>& batch) override;
  void end_fragment() override;
  void cut_only_where_told(int64_t most_bytes) override { most_block_bytes_ = most_bytes; }
  /// Nothing can be added any more.
  std::shared_ptr<const StoredRows> finish();

 private:
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
  const std::string folder_;
  std::shared_ptr<StoredRows> stored_;
  Batches waiting_;
  int64_t waiting_rows_ = 0, waiting_bytes_ = 0;
  std::optional<int64_t> most_block_bytes_;  ///< Fragments end where told only.
  bool begun_ = false;
  std::unique_ptr<OpenFragment> open_;
};

}  // namespace manta::data
