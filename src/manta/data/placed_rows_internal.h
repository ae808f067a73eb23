#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/deferred_rows_internal.h"
#include "manta/data/kept_rows_internal.h"
#include "manta/data/wide_query_internal.h"

namespace manta::data {

/// Passes on places in batches, with a lane for each side of the rows. False if it was stopped.
using GivePlaces = std::function<bool(
    const std::function<void(const std::shared_ptr<arrow::RecordBatch>&)>& take)>;

/// Rows that are kept, in the order in which their places are given.
struct PlacedRows {
  SchemaPtr schema;
  /// In the order of the lanes, which are places in them.
  std::vector<std::shared_ptr<const KeptRows>> sides;
  DeferredRows::Make make;

  /// The places that a query gives.
  GivePlaces places_of(WideQuery& query, const std::string& sql) const;
};

/// Gives them in parts, which several threads make; two parts for each thread are there at a time.
/// False if it was stopped.
bool give_rows(const GivePlaces& places, const PlacedRows& rows, int threads,
               const std::function<void(const std::shared_ptr<arrow::RecordBatch>&)>& take);

/// Gives the sink rows that are made when they are read, if their places have at most `room` bytes
/// and it is known where their fragments are cut; else the rows.
bool give_rows(const GivePlaces& places, const PlacedRows& rows, int threads, int64_t room,
               RowSink& sink);

}  // namespace manta::data
