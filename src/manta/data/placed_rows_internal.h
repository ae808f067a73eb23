#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/deferred_rows_internal.h"
#include "manta/data/kept_rows_internal.h"
#include "manta/data/wide_query_internal.h"

namespace manta::data {

/// Rows that are kept, in the order in which a query gives their places.
struct PlacedRows {
  SchemaPtr schema;
  /// In the order of the query's lanes, which are places in them.
  std::vector<std::shared_ptr<const KeptRows>> sides;
  DeferredRows::Make make;
};

/// Gives them in parts, which several threads make. False if the query was stopped.
bool give_rows(WideQuery& query, const std::string& sql, const PlacedRows& rows,
               const std::function<void(const std::shared_ptr<arrow::RecordBatch>&)>& take);

/// Gives the sink rows that are made when they are read, if their places have at most `room` bytes
/// and it is known where their fragments are cut; else the rows.
bool give_rows(WideQuery& query, const std::string& sql, const PlacedRows& rows, int64_t room,
               RowSink& sink);

}  // namespace manta::data
