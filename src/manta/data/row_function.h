#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "manta/data/row.h"

/// Functions of rows, as `map`, `flat_map` and `filter` take them: how a plan calls them with
/// batches.
namespace manta::data {

/// What a plan's function takes and gives.
enum class FunctionKind {
  kBatch,      ///< A batch for a batch: map_batches, map_groups.
  kMap,        ///< A row for a row.
  kFlatMap,    ///< Any number of rows for a row.
  kFilter,     ///< Whether a row stays.
  kAggregate,  ///< A state for rows, and a value for it: custom_aggregate.h.
};

namespace detail {

std::shared_ptr<arrow::RecordBatch> map_rows(const std::shared_ptr<arrow::RecordBatch>& batch,
                                             const std::function<Row(const Row&)>& function);
std::shared_ptr<arrow::RecordBatch> flat_map_rows(
    const std::shared_ptr<arrow::RecordBatch>& batch,
    const std::function<std::vector<Row>(const Row&)>& function);
std::shared_ptr<arrow::RecordBatch> filter_rows(const std::shared_ptr<arrow::RecordBatch>& batch,
                                                const std::function<bool(const Row&)>& function);
void visit_rows(const std::shared_ptr<arrow::RecordBatch>& batch,
                const std::function<void(const Row&)>& function);

}  // namespace detail
}  // namespace manta::data
