#include <arrow/api.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/data/batch_helpers_internal.h"
#include "manta/data/pipeline_internal.h"
#include "manta/data/row_bytes_internal.h"
#include "manta/data/stage_internal.h"

namespace manta::data {
namespace {

// Batches of fewer rows and fewer bytes, on average, are put together, so many at a time.
constexpr int64_t kTinyRows = 2048;
constexpr int64_t kTinyBytes = 1 << 20;
constexpr size_t kMostTiny = 16;
constexpr int kMostWaitingThreads = 64;
// A fragment that could not be read, as a server or a network file system may say, is tried again.
constexpr int kReadTries = 3;
constexpr std::chrono::milliseconds kReadPause{50};

bool are_tiny(const Batches& batches) {
  auto count = static_cast<int64_t>(batches.size());
  if (count_rows(batches) >= kTinyRows * count) return false;
  int64_t bytes = 0;
  for (const auto& batch : batches) bytes += bytes_of_batch(*batch);
  return bytes < kTinyBytes * count;
}

}  // namespace

Pipeline::Pipeline(std::shared_ptr<const Plan> plan, PassTimes* times, WorkCountPtr work)
    : plan_(std::move(plan)),
      use_(columns_used(*plan_)),
      bounds_(bounds_of(*plan_)),
      schemas_(schemas_of(*plan_)),
      fragments_(plan_->source->fragments()),
      times_(times),
      work_(std::move(work)),
      windows_at_(plan_->operations.size()) {
  MANTA_CHECK(!plan_->last_materialising(), "a pipeline of several stages");
  for (size_t i = 0; i < plan_->operations.size(); ++i) {
    const Operation* operation = plan_->operations[i].get();
    if (auto helpers = operation->helpers()) helpers_.push_back(std::move(helpers));
    if (times_) parts_.push_back(&times_->of(*operation));
    row_operations_.push_back(dynamic_cast<const RowOperation*>(operation));
    batch_operations_.push_back(dynamic_cast<const BatchOperation*>(operation));
    auto* windows = dynamic_cast<const WindowOperation*>(operation);
    if (!windows) continue;
    MANTA_CHECK(!window_operation_, "a plan with two window operations");
    window_operation_ = windows;
    windows_at_ = i;
  }
  set_finish();
}

void Pipeline::set_finish() {
  const auto& operations = plan_->operations;
  auto keeps_rows = [&](size_t i) {
    return row_operations_[i] && operations[i]->rows_after(0, kPieceRows) == kPieceRows;
  };
  for (size_t i = 0; i < operations.size(); ++i) {
    bool known = schemas_[i] && schemas_[i + 1];
    rows_at_a_time_.push_back(known ? rows_at_a_time(*schemas_[i + 1], *schemas_[i]) : INT64_MAX);
  }
  finish_at_ = operations.size();
  for (size_t i = operations.size(); i-- > 0 && keeps_rows(i);) {
    if (rows_at_a_time_[i] < INT64_MAX || !schemas_[i]) finish_at_ = i;
  }
}

int Pipeline::waiting_threads() const {
  int threads = 0;
  for (const auto& helpers : helpers_) threads += helpers->count();
  return std::min(threads, kMostWaitingThreads);
}

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

void Pipeline::came_out(size_t operation, int64_t rows) const {
  if (times_) parts_[operation]->rows += rows;
  count_work(work_);
}

void Pipeline::read(size_t fragment, const TakeBatch& take) const {
  if (!times_) return plan_->source->read(fragment, use_.read, kPieceRows, take);
  int64_t taking = 0, files_before = file_nanoseconds();
  auto begin = PassClock::now();
  plan_->source->read(fragment, use_.read, kPieceRows, [&](auto batch) {
    auto before = PassClock::now();
    take(std::move(batch));
    taking += nanoseconds_since(before);
  });
  int64_t files = file_nanoseconds() - files_before;
  int64_t rest = nanoseconds_since(begin) - taking - files;
  times_->read += files;
  (stored_rows(*plan_->source) ? times_->temporary : times_->decode) += rest;
}

bool Pipeline::skips(size_t fragment) const {
  std::optional<int64_t> rows = fragments_[fragment].rows;
  if (rows == 0) return true;
  for (const auto& operation : plan_->operations) {
    rows = operation->rows_after(fragment, rows);
    if (rows == 0) return true;
  }
  return plan_->source->rules_out(fragment, bounds_);
}

std::vector<std::vector<size_t>> Pipeline::windows(int64_t epoch) const {
  if (window_operation_) return window_operation_->windows(fragments_, epoch);
  std::vector<std::vector<size_t>> windows;
  for (size_t i = 0; i < fragments_.size(); ++i) windows.push_back({i});
  return windows;
}

void Pipeline::run(const std::vector<size_t>& fragments, int64_t epoch, int64_t window,
                   std::atomic<int64_t>& rows_decoded, const TakeBatch& take) const {
  if (window_operation_ || next_barrier(0, finish_at_) < finish_at_) {
    for (auto& batch : run_window(fragments, epoch, window, rows_decoded)) take(std::move(batch));
    return;
  }
  for (size_t fragment : fragments) {
    if (skips(fragment)) continue;
    Batches waiting;
    auto give = [&] {
      for (auto& batch : waiting) take(std::move(batch));
      waiting.clear();
    };
    decode(fragment, finish_at_, rows_decoded, [&](auto batch) {
      waiting.push_back(std::move(batch));
      if (are_tiny(waiting) && waiting.size() < kMostTiny) return;
      waiting = without_tiny(std::move(waiting), fragment);
      give();
    });
    waiting = without_tiny(std::move(waiting), fragment);
    give();
  }
}

Batches Pipeline::run_window(const std::vector<size_t>& fragments, int64_t epoch, int64_t window,
                             std::atomic<int64_t>& rows_decoded) const {
  Batches batches;
  for (size_t fragment : fragments) {
    Batches more = run_fragment(fragment, rows_decoded);
    batches.insert(batches.end(), more.begin(), more.end());
  }
  if (window_operation_ && !batches.empty()) {
    try {
      batches = timed(windows_at_, [&] { return window_operation_->run(batches, epoch, window); });
      came_out(windows_at_, count_rows(batches));
    } catch (const Error& error) {
      throw Error(error.kind(), str("the window that begins with ", place(fragments[0]).describe(),
                                    ": ", error.what()));
    }
    batches = run_from(windows_at_ + 1, finish_at_, std::move(batches), fragments[0]);
  }
  return batches;
}

Batches Pipeline::run_fragment(size_t fragment, std::atomic<int64_t>& rows_decoded) const {
  Batches batches;
  if (skips(fragment)) return batches;
  size_t end = std::min(windows_at_, finish_at_);
  size_t first_barrier = next_barrier(0, end);
  decode(fragment, first_barrier, rows_decoded,
         [&](auto batch) { batches.push_back(std::move(batch)); });
  return run_from(first_barrier, end, without_tiny(std::move(batches), fragment), fragment);
}

// What the operations before `end` make of a fragment's rows.
void Pipeline::decode(size_t fragment, size_t end, std::atomic<int64_t>& rows_decoded,
                      const TakeBatch& take) const {
  int64_t taken = 0;      // batches that were read, and went on
  bool may_retry = true;  // what failed is the reading
  for (int again = 1;; ++again) {
    int64_t number = 0;  // of the batch, in this try
    auto take_next = [&](const std::shared_ptr<arrow::RecordBatch>& decoded) {
      if (number++ < taken) return;
      may_retry = false;
      count_work(work_);
      Batches made;
      try {
        compute_in_parts(*decoded, 0, end, most_rows_at_a_time(0, end),
                         [&](auto batch) { made.push_back(std::move(batch)); });
      } catch (const Error& error) {
        throw Error(error.kind(), str(place(fragment).describe(), ": ", error.what()));
      }
      for (auto& batch : made) take(std::move(batch));
      rows_decoded += decoded->num_rows();
      ++taken;
      may_retry = true;
    };
    try {
      return read(fragment, take_next);
    } catch (const Error& error) {
      // A fragment is cut in the same way each time that it is read.
      if (error.kind() != ErrorKind::kIo || !may_retry) throw;
      if (again == kReadTries) {
        throw Error(ErrorKind::kIo, str(error.what(), " (tried ", kReadTries, " times)"));
      }
      std::this_thread::sleep_for(again * kReadPause);
    }
  }
}

// Few rows are left: many tiny batches would cost whoever takes them more than one copy.
Batches Pipeline::without_tiny(Batches batches, size_t fragment) const {
  if (!are_tiny(batches)) return batches;
  try {
    return rechunk(batches, kPieceRows);
  } catch (const Error& error) {
    throw Error(error.kind(), str(place(fragment).describe(), ": ", error.what()));
  }
}

size_t Pipeline::next_barrier(size_t operation, size_t end) const {
  while (operation < end && !batch_operations_[operation]) ++operation;
  return operation;
}

Batches Pipeline::run_from(size_t operation, size_t end, Batches batches, size_t fragment) const {
  while (operation < end) {
    if (auto* barrier = batch_operations_[operation]) {
      batches = timed(operation, [&] { return barrier->run(batches, place(fragment)); });
      came_out(operation, count_rows(batches));
      ++operation;
    }
    size_t next = next_barrier(operation, end);
    Batches computed;
    for (const auto& batch : batches) {
      try {
        compute_in_parts(*batch, operation, next, most_rows_at_a_time(operation, next),
                         [&](auto result) { computed.push_back(std::move(result)); });
      } catch (const Error& error) {
        throw Error(error.kind(), str(place(fragment).describe(), ": ", error.what()));
      }
    }
    batches = std::move(computed);
    operation = next;
  }
  return batches;
}

void Pipeline::finish(const arrow::RecordBatch& rows, const std::vector<size_t>& fragments,
                      const TakeBatch& take) const {
  try {
    compute_in_parts(rows, finish_at_, plan_->operations.size(), rows_to_finish(*rows.schema()),
                     take);
  } catch (const Error& error) {
    throw Error(error.kind(), str(place(fragments[0]).describe(), ": ", error.what()));
  }
}

int64_t Pipeline::rows_to_finish(const arrow::Schema& schema) const {
  const auto& operations = plan_->operations;
  if (schemas_[finish_at_]) return most_rows_at_a_time(finish_at_, operations.size());
  int64_t rows = INT64_MAX;
  try {
    auto before = std::make_shared<arrow::Schema>(schema);
    for (size_t i = finish_at_; i < operations.size() && before; ++i) {
      auto after = operations[i]->schema_after(before);
      if (after) rows = std::min(rows, rows_at_a_time(*after, *before));
      before = std::move(after);
    }
  } catch (const Error&) {  // NOLINT: it will be told of the rows themselves
  }
  return rows;
}

int64_t Pipeline::most_rows_at_a_time(size_t begin, size_t end) const {
  int64_t rows = INT64_MAX;
  for (size_t i = begin; i < end; ++i) rows = std::min(rows, rows_at_a_time_[i]);
  return rows;
}

void Pipeline::compute_in_parts(const arrow::RecordBatch& batch, size_t begin, size_t end,
                                int64_t part, const TakeBatch& take) const {
  if (part >= batch.num_rows()) {
    if (auto result = compute(batch, begin, end)) take(std::move(result));
    return;
  }
  for (int64_t row = 0; row < batch.num_rows(); row += part) {
    if (auto result = compute(*batch.Slice(row, part), begin, end)) take(std::move(result));
  }
}

std::shared_ptr<arrow::RecordBatch> Pipeline::compute(const arrow::RecordBatch& batch, size_t begin,
                                                      size_t end) const {
  Piece piece = to_piece(batch);
  RowMask mask(piece.rows);
  for (size_t i = begin; i < end; ++i) {
    const auto& live = use_.live_after[i];
    timed(i, [&] { row_operations_[i]->run(piece, mask, live); });
    came_out(i, mask.kept());
    if (mask.kept() == 0) return nullptr;
    if (live) keep_columns(piece, *live, true);
    // Computing on rows that are not wanted costs less than moving the others, unless most are not.
    if (mask.kept() < mask.rows() / 4) mask.apply(piece);
  }
  if (schemas_[end]) order_columns(piece, schemas_[end]->field_names());
  mask.apply(piece);
  return piece.rows == 0 ? nullptr : to_batch(std::move(piece));
}

}  // namespace manta::data
