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
// A fragment is tried again if a server or a network file system reports that it could not be read.
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

// Keeps the results of as many operations as possible: up to the first that needs order, may make
// wide rows, or may give different results each time.
void Pipeline::set_kept() {
  size_t end = next_barrier(0, std::min(windows_at_, finish_at_));
  while (kept_at_ < end && row_operations_[kept_at_]->repeats()) ++kept_at_;
}

bool Pipeline::keeps_results() const {
  size_t order_is_left = window_operation_ ? windows_at_ + 1 : windows_at_;
  return decoded_ && decoded_->keeps() && kept_at_ == windows_at_ &&
         order_is_left == plan_->operations.size();
}

int64_t Pipeline::expect_to_keep() const {
  if (!schemas_[kept_at_]) return INT64_MAX;
  arrow::FieldVector fields = schemas_[kept_at_]->fields();
  const ColumnNames& live = kept_at_ == 0 ? ColumnNames(use_.read) : use_.live_after[kept_at_ - 1];
  if (live) {
    std::erase_if(fields, [&](const auto& field) {
      return std::find(live->begin(), live->end(), field->name()) == live->end();
    });
  }
  int64_t bytes_of_row = guess_bytes_of_row(arrow::Schema(fields)), bytes = 0;
  for (size_t i = 0; i < fragments_.size(); ++i) {
    if (has_no_rows(i)) continue;
    int64_t more = bytes_to_keep(fragments_[i].expected_rows, bytes_of_row,
                                 static_cast<int>(fields.size()), kPieceRows);
    if (__builtin_add_overflow(bytes, more, &bytes)) return INT64_MAX;
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

bool Pipeline::has_no_rows(size_t fragment) const {
  std::optional<int64_t> rows = fragments_[fragment].rows;
  if (rows == 0) return true;
  for (const auto& operation : plan_->operations) {
    rows = operation->rows_after(fragment, rows);
    if (rows == 0) return true;
  }
  return false;
}

bool Pipeline::skips(size_t fragment) const {
  if (has_no_rows(fragment)) return true;
  try {
    return plan_->source->rules_out(fragment, bounds_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kIo) throw;
    return false;  // the pass that reads the fragment tries again
  }
}

std::vector<std::vector<size_t>> Pipeline::windows(int64_t epoch) const {
  if (window_operation_) return window_operation_->windows(fragments_, epoch);
  std::vector<std::vector<size_t>> windows;
  for (size_t i = 0; i < fragments_.size(); ++i) windows.push_back({i});
  return windows;
}

// Runs the operations before `end` on a fragment's rows. Its batches end at the same rows whether
// rows are kept or not: a shuffle's windows may depend on that.
void Pipeline::decode(size_t fragment, size_t end, std::atomic<int64_t>& rows_decoded,
                      const TakeBatch& take) const {
  if (auto kept = decoded_ ? decoded_->find(fragment) : nullptr) {
    for (const auto& batch : *kept) compute_rest(fragment, batch, end, take);
    return;
  }
  FragmentToKeep to_keep(decoded_.get(), fragment);
  const int64_t part = most_rows_at_a_time(0, end);
  int64_t taken = 0;      // batches that were read and passed on
  bool may_retry = true;  // the failure is one of reading
  for (int again = 1;; ++again) {
    int64_t number = 0;  // of the batch, in this try
    auto take_next = [&](const std::shared_ptr<arrow::RecordBatch>& decoded) {
      if (number++ < taken) return;
      may_retry = false;
      count_work(work_);
      Batches made;
      size_t middle = to_keep.keeps() ? kept_at_ : end;
      naming_place(place(fragment), [&] {
        compute_in_parts(*decoded, 0, middle, part,
                         [&](auto batch) { made.push_back(std::move(batch)); });
      });
      for (auto& batch : made) {
        if (middle == end) {
          take(to_keep.add(std::move(batch)));
        } else {
          compute_rest(fragment, to_keep.add(std::move(batch)), end, take);
        }
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

// Runs the operations before `end` on kept rows.
void Pipeline::compute_rest(size_t fragment, const std::shared_ptr<arrow::RecordBatch>& kept,
                            size_t end, const TakeBatch& take) const {
  if (kept_at_ == end) return take(kept);
  count_work(work_);
  auto made = naming_place(place(fragment), [&] { return compute(*kept, kept_at_, end); });
  if (made) take(std::move(made));
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
    // Computing on unwanted rows costs less than moving the others, unless most rows are unwanted.
    if (mask.kept() < mask.rows() / 4) mask.apply(piece);
  }
  if (schemas_[end]) order_columns(piece, schemas_[end]->field_names());
  mask.apply(piece);
  return piece.rows == 0 ? nullptr : to_batch(std::move(piece));
}

}  // namespace manta::data
