#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/data/plan_internal.h"
#include "manta/data/work_count_internal.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace manta::data {

class DecodedRows;
class PassTimes;

/// Where a pass over a plan begins. A pass is one epoch: a sequence of windows (row groups, or the
/// groups of a window shuffle), the same for every reader of the plan.
struct StreamStart {
  int64_t epoch = 0;
  int64_t window = 0;            ///< The first window that is read.
  int64_t window_first_row = 0;  ///< How many rows the windows before it give.
};

struct StreamOptions {
  int threads = 1;  ///< Threads that decode and compute.
  /// Bytes that are read ahead and not yet taken. One block always fits, and one window if windows
  /// are read by `next_window`. A window that is being read counts by the types of its columns, or
  /// as the largest window so far if that is more, or by what it has given. Arrow's allocator may
  /// take as much again for memory that is freed on another thread than the one that took it.
  int64_t byte_budget = 256 << 20;
  /// Once there is a window for each thread, and one more, reading stops at this many bytes: for a
  /// caller that takes blocks more slowly than they are read. Reusing memory costs less than new
  /// memory.
  int64_t enough_bytes = std::numeric_limits<int64_t>::max();
  int64_t max_block_rows = 64 * 1024;  ///< Blocks are cut to at most this many rows,
  /// and to at most about this many bytes, unless a row has more.
  int64_t max_block_bytes = 128 << 20;
  bool read_ahead = true;  ///< False: a window is begun only when a caller waits for it.
  /// Whether the stream is read by `next_window`: then only the windows w with w mod `parts` =
  /// `part`.
  bool by_window = false;
  int64_t part = 0, parts = 1;
  /// Rows may come as Source::read_coded gives them, if the plan's operations only pick columns.
  bool coded = false;
  /// The name under which a terminal shows the progress. Empty: it shows none.
  std::string progress = {};
  std::shared_ptr<PassTimes> times = nullptr;  ///< Gets the times of the pass; may be null.
  WorkCountPtr work = nullptr;                 ///< Grows while the pass makes progress, in all its
                                               ///< stages.
  /// Keeps the decoded rows, if they are few enough, for other passes that get the same object;
  /// null: they are not kept. Must be null for a plan of several stages.
  std::shared_ptr<DecodedRows> decoded = nullptr;
  /// Called with all rows on the threads that made them, while the rows are in the processor's
  /// cache: the rows of a window in order, windows in any order. `next` then gives no rows; it
  /// returns at the end of the pass, or throws what reading or this function threw. Empty: `next`
  /// gives the rows.
  std::function<void(const std::shared_ptr<arrow::RecordBatch>& batch)> consume = {};
};

/// Some consecutive rows of the pass.
struct StreamBlock {
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t bytes = 0;             ///< About how many bytes it takes.
  int64_t first_row = 0;         ///< Its first row in the pass, counting the rows that survive the
                                 ///< plan.
  int64_t window = 0;            ///< The window of these rows,
  int64_t window_first_row = 0;  ///< and the first row of that window.
};

/// All rows of a window. There may be none.
struct StreamWindow {
  int64_t window = 0;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;  ///< None of them empty.
  int64_t bytes = 0;                                         ///< About how many bytes they take.
};

/// One pass over a plan, in order, read ahead on the stream's own threads. The order of rows and
/// their cut into windows depend only on data, plan and epoch, not on threads, budget or timing. If
/// the plan has an operation that materialises, its rows are made by the constructor and owned by
/// the stream; the windows are those of the last stage (stage_internal.h).
class Stream {
 public:
  /// `on_ready` is called on one of its threads whenever `ready` may have become true. Throws
  /// Error(kCorrupt) if the epoch has no such window, or if that many rows cannot be before it.
  Stream(std::shared_ptr<const Plan> plan, StreamStart start, StreamOptions options,
         std::function<void()> on_ready = {});
  ~Stream();  ///< Stops the threads and joins them.

  /// Blocks until the next rows are there; nothing at the end of the epoch. Throws what reading or
  /// a user's function threw, naming file and row group. Never gives an empty block.
  std::optional<StreamBlock> next();
  /// The same, window by window, including windows that give no rows, if `by_window` is set.
  std::optional<StreamWindow> next_window();
  /// Whether `next` would return, or throw, at once.
  bool ready() const;
  /// Rows read from files so far, before any filter.
  int64_t rows_decoded() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// How many rows each fragment of the source gives, for a plan of one stage without windows. Reads
/// no rows if the operations know the numbers.
std::vector<int64_t> rows_per_fragment(const std::shared_ptr<const Plan>& plan);

}  // namespace manta::data
