#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/bounds_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/pass_times_internal.h"
#include "manta/data/plan_internal.h"

namespace manta::data {

/// A plan of one stage made ready to run. Its methods may be called from several threads.
class Pipeline {
 public:
  /// `times`: where the times of its parts go; null if nobody asks.
  explicit Pipeline(std::shared_ptr<const Plan> plan, PassTimes* times = nullptr);

  const Plan& plan() const { return *plan_; }
  const std::vector<std::string>& columns_read() const { return use_.read; }
  /// Threads that only wait for helpers of map_batches, beside those that compute.
  int waiting_threads() const;
  /// Whether a row group need not be read: by its statistics, or because no row of it is in this
  /// part of a split.
  bool skips(size_t fragment) const;

  /// The windows of an epoch, in order: each a list of indices of fragments.
  std::vector<std::vector<size_t>> windows(int64_t epoch) const;
  /// The rows that a window gives, in order, none of the batches empty. Adds what it decodes to
  /// `rows_decoded`.
  Batches run(const std::vector<size_t>& fragments, int64_t epoch, int64_t window,
              std::atomic<int64_t>& rows_decoded) const;

 private:
  Batches run_fragment(size_t fragment, std::atomic<int64_t>& rows_decoded) const;
  Batches run_from(size_t operation, size_t end, Batches batches, size_t fragment) const;
  size_t next_barrier(size_t operation, size_t end) const;
  std::shared_ptr<arrow::RecordBatch> compute(const arrow::RecordBatch& batch, size_t begin,
                                              size_t end) const;
  void read(size_t fragment, const TakeBatch& take) const;
  template <class Run>
  auto timed(size_t operation, Run run) const;
  void came_out(size_t operation, int64_t rows) const;
  Place place(size_t fragment) const { return {*plan_, fragment}; }

  std::shared_ptr<const Plan> plan_;
  ColumnUse use_;
  std::vector<Bound> bounds_;
  std::vector<std::shared_ptr<arrow::Schema>> schemas_;  ///< Before each operation, and at the end.
  std::vector<Fragment> fragments_;
  std::vector<std::shared_ptr<BatchHelpers>> helpers_;  ///< Held for as long as it runs.
  // By operation, null where it is of another sort.
  std::vector<const RowOperation*> row_operations_;
  std::vector<const BatchOperation*> batch_operations_;
  const WindowOperation* window_operation_ = nullptr;  ///< Null if there is none.
  PassTimes* const times_;
  std::vector<PassTimes::Part*> parts_;  ///< By operation; none if nobody asks for times.
  size_t windows_at_ = 0;                ///< Its place; the number of operations if there is none.
};

}  // namespace manta::data
