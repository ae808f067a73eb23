#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/pipeline_internal.h"
#include "manta/data/row_bytes_internal.h"

namespace manta::data {
namespace {

// Batches with fewer rows and fewer bytes than these, on average, are put together.
constexpr int64_t kTinyRows = 2048;
constexpr int64_t kTinyBytes = 1 << 20;
constexpr size_t kMostTiny = 16;
// A larger window comes in parts: two parts of this size exist while one is reordered.
constexpr int64_t kMostWindowBytes = 128 << 20;

bool are_tiny(const Batches& batches) {
  auto count = static_cast<int64_t>(batches.size());
  if (count_rows(batches) >= kTinyRows * count) return false;
  int64_t bytes = 0;
  for (const auto& batch : batches) bytes += bytes_of_batch(*batch);
  return bytes < kTinyBytes * count;
}

// Puts tiny batches together: if few rows are left, many tiny batches would cost the code that
// takes them more than one copy.
class TinyBatches {
 public:
  TinyBatches(const Place& place, TakeBatch take) : place_(place), take_(std::move(take)) {}

  void add(std::shared_ptr<arrow::RecordBatch> batch) {
    waiting_.push_back(std::move(batch));
    if (!are_tiny(waiting_) || waiting_.size() >= kMostTiny) finish();
  }
  void finish() {
    auto batches = std::move(waiting_);
    waiting_.clear();
    if (are_tiny(batches)) {
      batches = naming_place(place_, [&] { return rechunk(batches, kPieceRows); });
    }
    for (auto& batch : batches) take_(std::move(batch));
  }

 private:
  const Place& place_;
  const TakeBatch take_;
  Batches waiting_;
};

}  // namespace

/// Runs a range of a plan's operations, the first of which needs rows in their order, on the rows
/// of one fragment or window.
class Pipeline::Passage {
 public:
  Passage(const Pipeline& of, size_t begin, size_t end, const Place& place, const TakeBatch& take)
      : of_(of), begin_(begin), end_(end), place_(place), take_(take) {
    for (size_t at = of.next_barrier(begin, end); at < end; at = of.next_barrier(at + 1, end)) {
      flows_.push_back({at, of.flow_operations_[at]->begin(place)});
    }
  }

  void add(const std::shared_ptr<arrow::RecordBatch>& batch) { compute(begin_, 0, batch); }
  void finish() {
    for (size_t i = 0; i < flows_.size(); ++i) {
      run_flow(i, [&](const TakeBatch& take) { flows_[i].flow->finish(take); });
    }
  }

 private:
  struct At {
    size_t operation;
    std::unique_ptr<FlowOperation::Flow> flow;
  };

  // Runs the operations from `begin` on, up to a flow, and the flow on the result.
  void compute(size_t begin, size_t flow, const std::shared_ptr<arrow::RecordBatch>& batch) {
    size_t end = flow < flows_.size() ? flows_[flow].operation : end_;
    Batches computed;
    naming_place(place_, [&] {
      of_.compute_in_parts(*batch, begin, end, of_.most_rows_at_a_time(begin, end),
                           [&](auto result) { computed.push_back(std::move(result)); });
    });
    for (auto& each : computed) {
      if (flow == flows_.size()) {
        take_(std::move(each));
      } else {
        run_flow(flow, [&](const TakeBatch& take) { flows_[flow].flow->add(each, take); });
      }
    }
  }

  // Counts only the operation's own time.
  template <class Run>
  void run_flow(size_t flow, Run run) {
    size_t operation = flows_[flow].operation;
    int64_t behind = 0;
    auto begin = PassClock::now();
    run([&](std::shared_ptr<arrow::RecordBatch> batch) {
      auto before = PassClock::now();
      of_.came_out(operation, batch->num_rows());
      compute(operation + 1, flow + 1, batch);
      behind += nanoseconds_since(before);
    });
    if (of_.times_) of_.parts_[operation]->nanoseconds += nanoseconds_since(begin) - behind;
  }

  const Pipeline& of_;
  const size_t begin_, end_;
  const Place& place_;
  const TakeBatch& take_;
  std::vector<At> flows_;
};

void Pipeline::run(const std::vector<size_t>& fragments, int64_t epoch, int64_t window,
                   std::atomic<int64_t>& rows_decoded, const TakeBatch& take) const {
  if (window_operation_) return run_window(fragments, epoch, window, rows_decoded, take);
  for (size_t fragment : fragments) run_fragment(fragment, finish_at_, rows_decoded, take);
}

void Pipeline::run_fragment(size_t fragment, size_t end, std::atomic<int64_t>& rows_decoded,
                            const TakeBatch& take) const {
  if (skips(fragment)) return;
  Place at = place(fragment);
  size_t first = next_barrier(0, end);
  Passage passage(*this, first, end, at, take);
  bool flows = first < end;
  TinyBatches decoded(at, flows ? [&](auto batch) { passage.add(batch); } : take);
  decode(fragment, first, rows_decoded, [&](auto batch) { decoded.add(std::move(batch)); });
  decoded.finish();
  passage.finish();
}

void Pipeline::run_window(const std::vector<size_t>& fragments, int64_t epoch, int64_t window,
                          std::atomic<int64_t>& rows_decoded, const TakeBatch& take) const {
  Place at = place(fragments[0]);
  Passage behind(*this, windows_at_ + 1, finish_at_, at, take);
  Batches waiting;
  int64_t rows = 0, bytes = 0, part = 0;
  int64_t least = window_operation_->least_rows();
  auto give = [&] {
    Batches moved;
    try {
      moved =
          timed(windows_at_, [&] { return window_operation_->run(waiting, epoch, window, part); });
    } catch (const Error& error) {
      throw Error(error.kind(),
                  str("the window that begins with ", at.describe(), ": ", error.what()));
    }
    came_out(windows_at_, rows);
    waiting.clear();
    rows = bytes = 0;
    ++part;
    for (const auto& batch : moved) behind.add(batch);
  };
  for (size_t fragment : fragments) {
    run_fragment(fragment, windows_at_, rows_decoded, [&](auto batch) {
      rows += batch->num_rows();
      bytes += bytes_of_batch(*batch);
      waiting.push_back(std::move(batch));
      if (least == 0 || (rows >= least && bytes >= kMostWindowBytes)) give();
    });
  }
  if (!waiting.empty()) give();
  behind.finish();
}

}  // namespace manta::data
