#include <arrow/api.h>

#include <algorithm>
#include <exception>
#include <span>

#include "manta/base/error.h"
#include "manta/core/function.h"
#include "manta/data/expression_internal.h"
#include "manta/data/gather_internal.h"
#include "manta/data/generator_internal.h"
#include "manta/data/piece_internal.h"
#include "manta/data/pipeline_internal.h"
#include "manta/data/row_mask_internal.h"
#include "manta/io/arrow_status.h"

namespace manta::data {
namespace {

// What a generator is for, so that equal seeds do not give equal numbers to different things.
enum Purpose : uint64_t { kFragmentOrder = 1, kRowOrder = 2, kSplitRows = 3 };

constexpr int64_t kSmallBatchRows = 2048;

bool is_barrier(const Operation& operation) {
  return operation.kind == OperationKind::kMapBatches || operation.kind == OperationKind::kSplit;
}

// A row fulfils `a && b` if it fulfils each: cheaper than putting bits of values and of nulls
// together.
void filter(const Expression& expression, const Piece& piece, RowMask& mask) {
  const ExpressionNode& node = expression.node();
  if (node.op == ExpressionOp::kAnd) {
    for (const auto& argument : node.arguments) filter(Expression(argument), piece, mask);
    return;
  }
  auto condition = evaluate(expression, piece);
  if (condition->type_id() != arrow::Type::BOOL) {
    throw Error(ErrorKind::kInvalidArgument,
                str("in filter(", expression.to_string(), "): the expression is of type ",
                    condition->type()->ToString(), ", not a condition"));
  }
  mask.keep_true(*condition);
}

}  // namespace

Pipeline::Pipeline(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)), use_(columns_used(*plan_)), bounds_(bounds_of(*plan_)) {
  schemas_ = {schema_of(*plan_, 0)};
  for (const auto& operation : plan_->operations) {
    schemas_.push_back(schema_after(operation, schemas_.back()));
  }
  fragments_ = plan_->source->fragments();
  while (shuffle_at_ < plan_->operations.size() &&
         plan_->operations[shuffle_at_].kind != OperationKind::kWindowShuffle) {
    ++shuffle_at_;
  }
}

std::string Pipeline::describe(size_t fragment) const {
  return plan_->source->describe(fragments_[fragment]);
}

bool Pipeline::skips(size_t fragment) const {
  if (fragments_[fragment].rows == 0) return true;
  for (const auto& operation : plan_->operations) {
    if (operation.split && operation.split->kept(fragment) == 0) return true;
  }
  return excluded(bounds_, *plan_->source, fragments_[fragment]);
}

std::vector<std::vector<size_t>> Pipeline::windows(int64_t epoch) const {
  std::vector<std::vector<size_t>> windows;
  if (shuffle_at_ == plan_->operations.size()) {
    for (size_t i = 0; i < fragments_.size(); ++i) windows.push_back({i});
    return windows;
  }
  const Operation& shuffle = plan_->operations[shuffle_at_];
  Generator generator({shuffle.seed, static_cast<uint64_t>(epoch), kFragmentOrder});
  int64_t rows = shuffle.rows;  // in the last window
  for (size_t fragment : generator.permutation(static_cast<int64_t>(fragments_.size()))) {
    if (rows >= shuffle.rows) {
      windows.emplace_back();
      rows = 0;
    }
    windows.back().push_back(fragment);
    rows += fragments_[fragment].rows;
  }
  return windows;
}

Batches Pipeline::run(const std::vector<size_t>& fragments, int64_t epoch, int64_t window,
                      std::atomic<int64_t>& rows_decoded) const {
  Batches batches;
  for (size_t fragment : fragments) {
    Batches more = run_fragment(fragment, rows_decoded);
    batches.insert(batches.end(), more.begin(), more.end());
  }
  if (shuffle_at_ < plan_->operations.size() && !batches.empty()) {
    try {
      batches = shuffle(plan_->operations[shuffle_at_], batches, epoch, window);
    } catch (const Error& error) {
      throw Error(error.kind(),
                  str("the window that begins with ", describe(fragments[0]), ": ", error.what()));
    }
    batches = run_from(shuffle_at_ + 1, plan_->operations.size(), std::move(batches), fragments[0]);
  }
  return batches;
}

Batches Pipeline::run_fragment(size_t fragment, std::atomic<int64_t>& rows_decoded) const {
  Batches batches;
  if (skips(fragment)) return batches;
  size_t first_barrier = next_barrier(0, shuffle_at_);
  const Fragment& where = fragments_[fragment];
  plan_->source->read(where, use_.read, kPieceRows, [&](const auto& decoded) {
    rows_decoded += decoded->num_rows();
    try {
      auto batch = compute(*decoded, 0, first_barrier);
      if (batch) batches.push_back(std::move(batch));
    } catch (const Error& error) {
      throw Error(error.kind(), str(describe(fragment), ": ", error.what()));
    }
  });
  // Few rows are left: many tiny batches would cost whoever takes them more than one copy.
  if (count_rows(batches) < kSmallBatchRows * static_cast<int64_t>(batches.size())) {
    batches = rechunk(batches, kPieceRows);
  }
  return run_from(first_barrier, shuffle_at_, std::move(batches), fragment);
}

size_t Pipeline::next_barrier(size_t operation, size_t end) const {
  while (operation < end && !is_barrier(plan_->operations[operation])) ++operation;
  return operation;
}

Batches Pipeline::run_from(size_t operation, size_t end, Batches batches, size_t fragment) const {
  while (operation < end) {
    const Operation& barrier = plan_->operations[operation];
    if (barrier.kind == OperationKind::kMapBatches) {
      batches = map_batches(barrier, batches, fragment);
      ++operation;
    } else if (barrier.kind == OperationKind::kSplit) {
      batches = split(barrier, batches, fragment);
      ++operation;
    }
    size_t next = next_barrier(operation, end);
    Batches computed;
    for (const auto& batch : batches) {
      try {
        auto result = compute(*batch, operation, next);
        if (result) computed.push_back(std::move(result));
      } catch (const Error& error) {
        throw Error(error.kind(), str(describe(fragment), ": ", error.what()));
      }
    }
    batches = std::move(computed);
    operation = next;
  }
  return batches;
}

std::shared_ptr<arrow::RecordBatch> Pipeline::compute(const arrow::RecordBatch& batch, size_t begin,
                                                      size_t end) const {
  Piece piece = to_piece(batch);
  RowMask mask(piece.rows);
  for (size_t i = begin; i < end; ++i) {
    const Operation& operation = plan_->operations[i];
    const auto& live = use_.live_after[i];
    if (can_fail(operation.expression.node())) mask.apply(piece);
    switch (operation.kind) {
      case OperationKind::kFilter:
        filter(operation.expression, piece, mask);
        break;
      case OperationKind::kWithColumn:
        if (!live || std::find(live->begin(), live->end(), operation.name) != live->end()) {
          piece.set(operation.name, evaluate(operation.expression, piece));
        }
        break;
      case OperationKind::kSelect:
        if (live) {
          keep_columns(piece, operation.columns, true);
        } else {
          pick_columns(piece, operation.columns, operation.to_string());
        }
        break;
      case OperationKind::kDrop:
        keep_columns(piece, operation.columns, false);
        break;
      case OperationKind::kDropNa:
        for (const auto& name : operation.columns.empty() ? piece.names : operation.columns) {
          auto* column = piece.find(name);
          if (!column) {
            throw Error(ErrorKind::kNotFound,
                        str("in ", operation.to_string(), ": ", no_such_column(name, piece.names)));
          }
          mask.keep_valid(**column);
        }
        break;
      default:
        break;
    }
    if (mask.kept() == 0) return nullptr;
    if (live) keep_columns(piece, *live, true);
    // Computing on rows that are not wanted costs less than moving the others, unless most are not.
    if (mask.kept() < mask.rows() / 4) mask.apply(piece);
  }
  if (schemas_[end]) order_columns(piece, schemas_[end]->field_names());
  mask.apply(piece);
  return piece.rows == 0 ? nullptr : to_batch(std::move(piece));
}

Batches Pipeline::map_batches(const Operation& operation, const Batches& batches,
                              size_t fragment) const {
  Batches results;
  auto doing = [&] {
    return str(describe_function(manta::detail::make_function(operation.function)),
               " of map_batches, on ", describe(fragment));
  };
  for (const auto& batch : rechunk(batches, operation.rows)) {
    std::shared_ptr<arrow::RecordBatch> result;
    try {
      result = operation.function(batch);
    } catch (const std::exception& error) {
      throw Error(ErrorKind::kUserCode,
                  str(doing(), ", threw ", demangle(typeid(error).name()), ": ", error.what()));
    }
    if (!result) {
      throw Error(ErrorKind::kUserCode,
                  str(doing(), ", returned no batch; return one with no rows to drop them all"));
    }
    auto valid = result->Validate();
    if (!valid.ok()) {
      throw Error(ErrorKind::kUserCode,
                  str(doing(), ", returned a batch that is not valid: ", valid.message()));
    }
    if (result->num_rows() > 0) results.push_back(std::move(result));
  }
  return results;
}

Batches Pipeline::split(const Operation& operation, const Batches& batches, size_t fragment) const {
  const Split& split = *operation.split;
  int64_t rows = count_rows(batches);
  if (rows != split.rows[fragment]) {
    throw Error(
        ErrorKind::kCorrupt,
        str(describe(fragment), " gave ", split.rows[fragment], " rows when it was split, and ",
            rows, " now; the data, or what a map_batches function does, has changed"));
  }
  Batches results;
  int64_t test_rows = split.test_rows[fragment];
  if (!split.shuffle) {
    int64_t begin = split.test ? rows - test_rows : 0;
    int64_t end = split.test ? rows : rows - test_rows;
    int64_t first = 0;
    for (const auto& batch : batches) {
      int64_t from = std::max<int64_t>(begin - first, 0);
      int64_t to = std::min(end - first, batch->num_rows());
      if (from < to) results.push_back(batch->Slice(from, to - from));
      first += batch->num_rows();
    }
    return results;
  }
  Generator generator({split.seed, fragment, kSplitRows});
  auto order = generator.permutation(rows);
  std::vector<uint8_t> bits(static_cast<size_t>(rows) / 8 + 1, split.test ? 0x00 : 0xff);
  for (int64_t i = 0; i < test_rows; ++i) {
    size_t row = order[static_cast<size_t>(i)];
    bits[row / 8] = static_cast<uint8_t>(bits[row / 8] ^ (1u << (row % 8)));
  }
  int64_t first = 0;
  for (const auto& batch : batches) {
    Piece piece = to_piece(*batch);
    RowMask mask(piece.rows);
    mask.keep_bits(bits.data(), first);
    mask.apply(piece);
    if (piece.rows > 0) results.push_back(to_batch(std::move(piece)));
    first += batch->num_rows();
  }
  return results;
}

Batches Pipeline::shuffle(const Operation& operation, const Batches& batches, int64_t epoch,
                          int64_t window) const {
  auto all = concatenate(batches);
  Generator generator(
      {operation.seed, static_cast<uint64_t>(epoch), kRowOrder, static_cast<uint64_t>(window)});
  auto order = generator.permutation(all->num_rows());
  Batches results;
  for (size_t row = 0; row < order.size(); row += kPieceRows) {
    auto rows = std::span(order).subspan(row, std::min<size_t>(kPieceRows, order.size() - row));
    Piece piece = to_piece(*all);
    piece.rows = static_cast<int64_t>(rows.size());
    for (auto& column : piece.columns) column = gather(*column, rows, column->null_count() > 0);
    results.push_back(to_batch(std::move(piece)));
  }
  return results;
}

}  // namespace manta::data
