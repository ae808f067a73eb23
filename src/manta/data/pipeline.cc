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

constexpr int kMostWaitingThreads = 64;
// A fragment that could not be read, as a server or a network file system may say, is tried again.
constexpr int kReadTries = 3;
constexpr std::chrono::milliseconds kReadPause{50};

}  // namespace

Pipeline::Pipeline(std::shared_ptr<const Plan> plan, PassTimes* times, WorkCountPtr work,
                   std::shared_ptr<DecodedRows> decoded, bool coded)
    : plan_(std::move(plan)),
      use_(columns_used(*plan_)),
      bounds_(bounds_of(*plan_)),
      schemas_(schemas_of(*plan_)),
      fragments_(plan_->source->fragments()),
      times_(times),
      work_(std::move(work)),
      windows_at_(plan_->operations.size()),
      decoded_(std::move(decoded)) {
  MANTA_CHECK(!plan_->last_materialising(), "a pipeline of several stages");
  for (size_t i = 0; i < plan_->operations.size(); ++i) {
    const Operation* operation = plan_->operations[i].get();
    if (auto helpers = operation->helpers()) helpers_.push_back(std::move(helpers));
    if (times_) parts_.push_back(&times_->of(*operation));
    row_operations_.push_back(dynamic_cast<const RowOperation*>(operation));
    flow_operations_.push_back(dynamic_cast<const FlowOperation*>(operation));
    auto* windows = dynamic_cast<const WindowOperation*>(operation);
    if (!windows) continue;
    MANTA_CHECK(!window_operation_, "a plan with two window operations");
    window_operation_ = windows;
    windows_at_ = i;
  }
  coded_ = coded && only_picks_columns() && !decoded_;
  set_finish();
  set_kept();
}

bool Pipeline::only_picks_columns() const {
  return std::all_of(row_operations_.begin(), row_operations_.end(), [](const auto* operation) {
    return operation && operation->only_picks_columns();
  });
}

// As much as possible is kept computed: up to what needs order, may become wide, or may differ from
// time to time.
void Pipeline::set_kept() {
  size_t end = next_barrier(0, std::min(windows_at_, finish_at_));
  while (kept_at_ < end && row_operations_[kept_at_]->repeats()) ++kept_at_;
  if (decoded_ && decoded_->keeps()) decoded_->expect(bytes_to_keep());
}

bool Pipeline::keeps_results() const {
  size_t order_is_left = window_operation_ ? windows_at_ + 1 : windows_at_;
  return decoded_ && decoded_->keeps() && kept_at_ == windows_at_ &&
         order_is_left == plan_->operations.size();
}

// At most about so many, if filters keep all rows.
int64_t Pipeline::bytes_to_keep() const {
  const auto& schema = schemas_[kept_at_];
  if (!schema) return INT64_MAX;
  int64_t bytes = 0;
  for (size_t i = 0; i < fragments_.size(); ++i) {
    int64_t more = 0;
    if (skips(i)) continue;
    if (__builtin_mul_overflow(fragments_[i].expected_rows, guess_bytes_of_row(*schema), &more) ||
        __builtin_add_overflow(bytes, more, &bytes)) {
      return INT64_MAX;
    }
  }
  return bytes;
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

void Pipeline::came_out(size_t operation, int64_t rows) const {
  if (times_) parts_[operation]->rows += rows;
  count_work(work_);
}

void Pipeline::read(size_t fragment, const TakeBatch& take) const {
  auto read_rows = [&](const TakeBatch& take_rows) {
    if (coded_) return plan_->source->read_coded(fragment, use_.read, kPieceRows, take_rows);
    plan_->source->read(fragment, use_.read, kPieceRows, take_rows);
  };
  if (!times_) return read_rows(take);
  int64_t taking = 0, files_before = file_nanoseconds();
  auto begin = PassClock::now();
  read_rows([&](auto batch) {
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

// What the operations before `end` make of rows that have been through those before `begin`.
void Pipeline::compute_rest(size_t fragment, const arrow::RecordBatch& rows, size_t begin,
                            size_t end, const TakeBatch& take) const {
  count_work(work_);
  Batches made;
  naming_place(place(fragment), [&] {
    compute_in_parts(rows, begin, end, most_rows_at_a_time(begin, end),
                     [&](auto batch) { made.push_back(std::move(batch)); });
  });
  for (auto& batch : made) take(std::move(batch));
}

// What the operations before `end` make of a fragment's rows.
void Pipeline::decode(size_t fragment, size_t end, std::atomic<int64_t>& rows_decoded,
                      const TakeBatch& take) const {
  if (auto kept = decoded_ ? decoded_->find(fragment) : nullptr) {
    for (const auto& batch : *kept) compute_rest(fragment, *batch, kept_at_, end, take);
    return;
  }
  FragmentToKeep to_keep(decoded_.get(), fragment);
  int64_t taken = 0;      // batches that were read, and went on
  bool may_retry = true;  // what failed is the reading
  for (int again = 1;; ++again) {
    int64_t number = 0;  // of the batch, in this try
    auto take_next = [&](const std::shared_ptr<arrow::RecordBatch>& decoded) {
      if (number++ < taken) return;
      may_retry = false;
      if (to_keep.keeps()) {
        compute_rest(fragment, *decoded, 0, kept_at_, [&](auto batch) {
          to_keep.add(batch);
          compute_rest(fragment, *batch, kept_at_, end, take);
        });
      } else {
        compute_rest(fragment, *decoded, 0, end, take);
      }
      rows_decoded += decoded->num_rows();
      ++taken;
      may_retry = true;
    };
    try {
      read(fragment, take_next);
      return to_keep.end();
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

size_t Pipeline::next_barrier(size_t operation, size_t end) const {
  while (operation < end && !flow_operations_[operation]) ++operation;
  return operation;
}

void Pipeline::finish(const arrow::RecordBatch& rows, const std::vector<size_t>& fragments,
                      const TakeBatch& take) const {
  naming_place(place(fragments[0]), [&] {
    compute_in_parts(rows, finish_at_, plan_->operations.size(), rows_to_finish(*rows.schema()),
                     take);
  });
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
