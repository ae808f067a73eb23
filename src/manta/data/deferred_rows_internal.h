#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/row_store_internal.h"

namespace manta::data {

/// Rows that are made when they are read, of the places that say which they are: those of a
/// KeptRows in another order, say. They cost the places and what is kept anyway, and are neither
/// written to a file nor copied there.
class DeferredRows final : public StoredRows {
 public:
  /// The rows at these places, with these columns. Several threads call it.
  using Make = std::function<std::shared_ptr<arrow::RecordBatch>(
      const arrow::RecordBatch& places, const std::vector<std::string>& columns)>;

  /// Only for rows whose fragments `is_cut_by_rows_only`. `row_bytes`: about how many each has.
  DeferredRows(SchemaPtr schema, int64_t row_bytes, Make make);

  /// Those of the next rows, in batches of kPieceRows rows; the last one may have fewer.
  void add(std::shared_ptr<arrow::RecordBatch> places);
  Batches read(size_t fragment, const std::vector<std::string>& columns) const override;

 private:
  const int64_t row_bytes_;
  const Make make_;
  Batches places_;  // of each fragment
};

}  // namespace manta::data
