#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/row_store_internal.h"

namespace manta::data {

/// Rows that are made from places when they are read: for example the rows of a KeptRows in another
/// order. They cost only the memory of the places, besides the rows that are kept anyway. They are
/// not written to a file.
class DeferredRows final : public StoredRows {
 public:
  /// The rows at these places, with these columns. Several threads call it.
  using Make = std::function<std::shared_ptr<arrow::RecordBatch>(
      const arrow::RecordBatch& places, const std::vector<std::string>& columns)>;

  /// Only for rows whose fragments `is_cut_by_rows_only`. `row_bytes`: about how many bytes each
  /// row has.
  DeferredRows(SchemaPtr schema, int64_t row_bytes, Make make);

  /// Adds the places of the next rows, in batches of kPieceRows rows; the last batch may have
  /// fewer.
  void add(std::shared_ptr<arrow::RecordBatch> places);
  Batches read(size_t fragment, const std::vector<std::string>& columns) const override;

 private:
  const int64_t row_bytes_;
  const Make make_;
  Batches places_;  // the places of each fragment
};

}  // namespace manta::data
