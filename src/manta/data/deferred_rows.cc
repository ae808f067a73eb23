#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/deferred_rows_internal.h"

namespace manta::data {

DeferredRows::DeferredRows(SchemaPtr schema, int64_t row_bytes, Make make)
    : row_bytes_(row_bytes), make_(std::move(make)) {
  schema_ = std::move(schema);
}

void DeferredRows::add(std::shared_ptr<arrow::RecordBatch> places) {
  int64_t rows = places->num_rows();
  MANTA_CHECK(rows <= kPieceRows && (fragments().empty() || fragments().back() == kPieceRows),
              "fragments that are cut elsewhere");
  add_fragment(rows, rows * row_bytes_);
  places_.push_back(std::move(places));
}

Batches DeferredRows::read(size_t fragment, const std::vector<std::string>& columns) const {
  const auto& places = *places_[fragment];
  if (!columns.empty()) return {make_(places, columns)};
  return {arrow::RecordBatch::Make(arrow::schema({}), places.num_rows(), arrow::ArrayVector())};
}

}  // namespace manta::data
