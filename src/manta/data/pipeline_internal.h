#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/bounds_internal.h"
#include "manta/data/decoded_rows_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/pass_times_internal.h"
#include "manta/data/plan_internal.h"

namespace manta::data {

/// A plan of one stage made ready to run. Its methods may be called from several threads.
class Pipeline {
 public:
  /// `times` receives the times of its parts; `work` counts its steps; both may be null. `decoded`
  /// holds the rows that an earlier pipeline has decoded, and receives this one's; null: it reads
  /// each fragment. `coded`: see StreamOptions.
  explicit Pipeline(std::shared_ptr<const Plan> plan, PassTimes* times = nullptr,
                    WorkCountPtr work = nullptr, std::shared_ptr<DecodedRows> decoded = nullptr,
                    bool coded = false);

  const Plan& plan() const { return *plan_; }
  const std::vector<std::string>& columns_read() const { return use_.read; }
  /// Whether it gives rows as Source::read_coded does.
  bool reads_coded() const { return coded_; }
  /// The number of threads that only wait for helpers of map_batches, besides those that compute.
  int waiting_threads() const;
  /// Whether a row group need not be read: by its statistics, or because no row of it is in this
  /// part of a split.
  bool skips(size_t fragment) const;

  /// Whether, once all windows have been read, `decoded` has all results, except for the order of
  /// their rows.
  bool keeps_results() const;

  /// About how many bytes `decoded` would have, if filters keep all rows.
  int64_t expect_to_keep() const;

  /// The windows of an epoch, in order: each a list of indices of fragments.
  std::vector<std::vector<size_t>> windows(int64_t epoch) const;
  /// Gives the rows of a window, in order, in batches that are not empty; if `finishes`, the rows
  /// from which `finish` makes the result. Adds the number of rows that it decodes to
  /// `rows_decoded`. Rows are given as soon as they are made, unless a window operation moves them.
  /// Then they come all at once or, if the window has more than 128 MiB, in parts, each reordered
  /// by itself.
  void run(const std::vector<size_t>& fragments, int64_t epoch, int64_t window,
           std::atomic<int64_t>& rows_decoded, const TakeBatch& take) const;

  /// Whether the last operations, which give one row for each row, make rows so wide (vectors of
  /// thousands of numbers) that those of a window may not fit into memory. Also true if that is not
  /// known before there are rows, after a function. Then `run` leaves these operations to `finish`.
  bool finishes() const { return finish_at_ < plan_->operations.size(); }
  /// How many rows with these columns, which `run` has given, make at most one batch of about 32
  /// MiB in `finish`. INT64_MAX: they do not become wide.
  int64_t rows_to_finish(const arrow::Schema& schema) const;
  /// Runs these operations on rows of a window, this many rows at a time.
  void finish(const arrow::RecordBatch& rows, const std::vector<size_t>& fragments,
              const TakeBatch& take) const;
  /// The columns that `run` gives; null if they are unknown before.
  const SchemaPtr& schema_before_finish() const { return schemas_[finish_at_]; }

 private:
  class Passage;
  void run_window(const std::vector<size_t>& fragments, int64_t epoch, int64_t window,
                  std::atomic<int64_t>& rows_decoded, const TakeBatch& take) const;
  /// Runs the operations before `end`.
  void run_fragment(size_t fragment, size_t end, std::atomic<int64_t>& rows_decoded,
                    const TakeBatch& take) const;
  void decode(size_t fragment, size_t end, std::atomic<int64_t>& rows_decoded,
              const TakeBatch& take) const;
  void compute_rest(size_t fragment, const std::shared_ptr<arrow::RecordBatch>& kept, size_t end,
                    const TakeBatch& take) const;
  size_t next_barrier(size_t operation, size_t end) const;
  bool only_picks_columns() const;
  void set_finish();
  void set_kept();
  bool has_no_rows(size_t fragment) const;
  std::shared_ptr<arrow::RecordBatch> compute(const arrow::RecordBatch& batch, size_t begin,
                                              size_t end) const;
  /// The same, with a limited number of rows at a time.
  void compute_in_parts(const arrow::RecordBatch& batch, size_t begin, size_t end, int64_t part,
                        const TakeBatch& take) const;
  int64_t most_rows_at_a_time(size_t begin, size_t end) const;
  void read(size_t fragment, const TakeBatch& take) const;
  template <class Run>
  auto timed(size_t operation, Run run) const;
  void came_out(size_t operation, int64_t rows) const;
  Place place(size_t fragment) const { return {*plan_, fragment, work_}; }

  std::shared_ptr<const Plan> plan_;
  ColumnUse use_;
  std::vector<Bound> bounds_;
  std::vector<std::shared_ptr<arrow::Schema>> schemas_;  ///< Before each operation, and at the end.
  std::vector<Fragment> fragments_;
  std::vector<std::shared_ptr<BatchHelpers>> helpers_;  ///< Held for as long as it runs.
  // By operation; null for an operation of another kind.
  std::vector<const RowOperation*> row_operations_;
  std::vector<const FlowOperation*> flow_operations_;
  const WindowOperation* window_operation_ = nullptr;  ///< Null if there is none.
  PassTimes* const times_;
  const WorkCountPtr work_;
  std::vector<PassTimes::Part*> parts_;  ///< By operation; empty if times are not recorded.
  size_t windows_at_ = 0;                ///< The window operation's place; the number of operations
                                         ///< if there is none.
  size_t finish_at_ = 0;                 ///< The first operation of `finish`; the number of
                                         ///< operations if none.
  std::vector<int64_t> rows_at_a_time_;  ///< By operation (row_bytes_internal.h).
  const std::shared_ptr<DecodedRows> decoded_;
  bool coded_ = false;
  size_t kept_at_ = 0;  ///< `decoded_` has what the operations before this one make.
};

template <class Run>
auto Pipeline::timed(size_t operation, Run run) const {
  if (!times_) return run();
  struct Counted {
    ~Counted() { to += nanoseconds_since(begin); }
    std::atomic<int64_t>& to;
    PassClock::time_point begin = PassClock::now();
  } counted{parts_[operation]->nanoseconds};
  return run();
}

}  // namespace manta::data
