#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/data/row_store_internal.h"

namespace manta::data {

/// Rows as lanes that go into a query by keys.
struct KeyedInput {
  NextBatch next;
  size_t first_key = 0;  ///< The lane of the first key; the others follow.
};

/// The options for running a query part by part.
struct DealOptions {
  size_t keys = 1;           ///< The number of each input's lanes that are keys.
  int64_t memory_bytes = 0;  ///< An eighth of it is used for rows on their way to files.
  std::function<bool()> stopping = {};
  std::string doing;  ///< For errors: "groupby(id)".
};

/// Runs a query on one part of each input; false if it was stopped. Throws TooLittleMemory if the
/// part is too large; its results so far are then thrown away.
using PartQuery = std::function<bool(const std::vector<NextBatch>& parts, RowSink& results)>;

/// For queries whose result for a key depends only on the rows of that key (groups and joins), when
/// the keys do not fit into memory. It deals the rows of each input out to temporary files by a
/// hash of their keys, so that rows with equal keys, of all inputs, are in one part. Rows keep
/// their order within a part. A part that is too large for the query is dealt out again, three
/// times at most.
///
/// Gives the results part by part; a caller that needs an order must sort them. Nothing if it was
/// stopped.
std::optional<std::vector<std::shared_ptr<const StoredRows>>> run_dealt(
    const std::vector<KeyedInput>& inputs, const DealOptions& options, const PartQuery& query);

/// The same lanes as columns c0, c1, ...: the columns of a file need names.
std::shared_ptr<arrow::RecordBatch> with_names(const arrow::RecordBatch& lanes);

/// Like `like`, but with these rows, one part after the other; each part is released after it was
/// read.
AllRows one_after_another(std::vector<std::shared_ptr<const StoredRows>> parts,
                          const AllRows& like);

}  // namespace manta::data
