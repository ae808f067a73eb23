#pragma once

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "manta/data/dataset.h"

namespace manta {
namespace internal {

using OfBatch = std::function<std::any(const std::shared_ptr<arrow::RecordBatch>&)>;
using TakePart = std::function<void(std::any)>;
/// `threads` is for tests; 0: all processors.
void fold_in_order(const Dataset& dataset, const OfBatch& of_batch, const TakePart& take,
                   int threads = 0);

}  // namespace internal

/// Reduces all rows of a data set to one value: `of_batch(batch)` makes a value of each batch, and
/// `merge(all, more)` combines them. Nothing if there are no rows.
///
///     auto most = fold_batches<double>(dataset.select_columns({"x"}), most_in, [](double& all,
///     double more) {
///       all = std::max(all, more);
///     });
///
/// `of_batch` runs on all processors at a time, on batches as the plan gives them. `merge` is
/// called in the order of the rows, one call at a time. So the result has the same bits for any
/// number of threads. At most a few batches are in memory.
template <class T, class MakeOfBatch, class Merge>
std::optional<T> fold_batches(const Dataset& dataset, MakeOfBatch of_batch, Merge merge) {
  std::optional<T> all;
  internal::fold_in_order(
      dataset,
      [&](const std::shared_ptr<arrow::RecordBatch>& batch) {
        return std::any(T(of_batch(batch)));
      },
      [&](std::any part) {
        T& more = std::any_cast<T&>(part);
        if (all) {
          merge(*all, std::move(more));
        } else {
          all = std::move(more);
        }
      });
  return all;
}

}  // namespace manta
