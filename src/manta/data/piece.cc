#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/piece_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {

const std::shared_ptr<arrow::Array>* Piece::find(const std::string& name) const {
  auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? nullptr : &columns[static_cast<size_t>(found - names.begin())];
}

void Piece::set(const std::string& name, std::shared_ptr<arrow::Array> column) {
  auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) {
    columns[static_cast<size_t>(found - names.begin())] = std::move(column);
  } else {
    names.push_back(name);
    columns.push_back(std::move(column));
  }
}

Piece to_piece(const arrow::RecordBatch& batch) {
  Piece piece;
  piece.rows = batch.num_rows();
  piece.names = batch.schema()->field_names();
  piece.columns = batch.columns();
  return piece;
}

void keep_columns(Piece& piece, const std::vector<std::string>& names, bool listed) {
  Piece kept;
  for (size_t i = 0; i < piece.names.size(); ++i) {
    bool found = std::find(names.begin(), names.end(), piece.names[i]) != names.end();
    if (found == listed) {
      kept.names.push_back(std::move(piece.names[i]));
      kept.columns.push_back(std::move(piece.columns[i]));
    }
  }
  kept.rows = piece.rows;
  piece = std::move(kept);
}

void pick_columns(Piece& piece, const std::vector<std::string>& names, const std::string& doing) {
  Piece picked;
  for (const auto& name : names) {
    auto* found = piece.find(name);
    if (!found) {
      throw Error(ErrorKind::kNotFound, str("in ", doing, ": ", no_such_column(name, piece.names)));
    }
    picked.names.push_back(name);
    picked.columns.push_back(*found);
  }
  picked.rows = piece.rows;
  piece = std::move(picked);
}

void order_columns(Piece& piece, const std::vector<std::string>& names) {
  if (piece.names == names) return;
  std::vector<std::string> there;
  for (const auto& name : names) {
    if (piece.find(name)) there.push_back(name);
  }
  pick_columns(piece, there, "a plan");
}

std::shared_ptr<arrow::RecordBatch> to_batch(Piece piece) {
  arrow::FieldVector fields;
  for (size_t i = 0; i < piece.names.size(); ++i) {
    fields.push_back(arrow::field(piece.names[i], piece.columns[i]->type()));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), piece.rows, std::move(piece.columns));
}

int64_t count_rows(const Batches& batches) {
  int64_t rows = 0;
  for (const auto& batch : batches) rows += batch->num_rows();
  return rows;
}

namespace {

// Whether the second column's values follow the first one's in the same memory.
bool follows_in_memory(const arrow::ArrayData& first, const arrow::ArrayData& second) {
  return first.buffers == second.buffers && first.child_data == second.child_data &&
         first.dictionary == second.dictionary && second.offset == first.offset + first.length;
}

// The rows of batches that are adjacent parts of one, without a copy; null if they are not.
std::shared_ptr<arrow::RecordBatch> put_together_again(const Batches& batches) {
  for (size_t i = 1; i < batches.size(); ++i) {
    if (batches[i]->num_columns() != batches[0]->num_columns()) return nullptr;
    for (int column = 0; column < batches[i]->num_columns(); ++column) {
      if (!follows_in_memory(*batches[i - 1]->column_data(column),
                             *batches[i]->column_data(column))) {
        return nullptr;
      }
    }
    if (!have_same_columns(*batches[0]->schema(), *batches[i]->schema())) return nullptr;
  }
  arrow::ArrayVector columns;
  for (const auto& column : batches[0]->columns()) {
    auto data = column->data()->Copy();
    data->length = count_rows(batches);
    data->null_count = data->buffers[0] ? arrow::kUnknownNullCount : 0;
    data->statistics = nullptr;  // those of the first part
    columns.push_back(arrow::MakeArray(data));
  }
  return arrow::RecordBatch::Make(batches[0]->schema(), count_rows(batches), std::move(columns));
}

}  // namespace

std::shared_ptr<arrow::RecordBatch> concatenate(const Batches& batches, arrow::MemoryPool* pool) {
  if (batches.size() == 1) return batches[0];
  if (batches[0]->num_columns() == 0) {
    return arrow::RecordBatch::Make(batches[0]->schema(), count_rows(batches),
                                    arrow::ArrayVector());
  }
  if (auto together = put_together_again(batches)) return together;
  if (!pool) pool = arrow::default_memory_pool();
  return check(arrow::ConcatenateRecordBatches(batches, pool), "putting batches together");
}

bool have_same_columns(const arrow::Schema& a, const arrow::Schema& b) {
  if (a.num_fields() != b.num_fields()) return false;
  for (int i = 0; i < a.num_fields(); ++i) {
    if (a.field(i)->name() != b.field(i)->name() ||
        !a.field(i)->type()->Equals(*b.field(i)->type()))
      return false;
  }
  return true;
}

std::string describe_columns(const arrow::Schema& schema) {
  std::vector<std::string> columns;
  for (const auto& field : schema.fields()) {
    columns.push_back(str(field->name(), ": ", field->type()->ToString()));
  }
  return join(columns);
}

Batches Rechunk::add(const std::shared_ptr<arrow::RecordBatch>& batch) {
  Batches complete;
  for (int64_t from = 0; from < batch->num_rows();) {
    int64_t taken = std::min(missing_, batch->num_rows() - from);
    parts_.push_back(batch->Slice(from, taken));
    from += taken;
    missing_ -= taken;
    if (missing_ > 0) continue;
    complete.push_back(concatenate(parts_));
    parts_.clear();
    missing_ = rows_;
  }
  return complete;
}

std::shared_ptr<arrow::RecordBatch> Rechunk::rest() {
  if (parts_.empty()) return nullptr;
  auto last = concatenate(parts_);
  parts_.clear();
  missing_ = rows_;
  return last;
}

Batches rechunk(const Batches& batches, int64_t rows) {
  Rechunk chunks(rows);
  Batches result;
  for (const auto& batch : batches) {
    for (auto& chunk : chunks.add(batch)) result.push_back(std::move(chunk));
  }
  if (auto rest = chunks.rest()) result.push_back(std::move(rest));
  return result;
}

}  // namespace manta::data
