#include <arrow/api.h>
#include <arrow/util/byte_size.h>

#include <algorithm>

#include "manta/data/row_bytes_internal.h"

namespace manta::data {
namespace {

int64_t bytes_of_value(const arrow::DataType& type) {
  if (type.id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& vector = static_cast<const arrow::FixedSizeListType&>(type);
    return vector.list_size() * bytes_of_value(*vector.value_type());
  }
  int width = type.bit_width();
  return width > 0 ? std::max(width / 8, 1) : 32;
}

int64_t bytes_of_rows(const arrow::ArrayData& data, int64_t first, int64_t end) {
  using arrow::Type;
  if (end <= first) return 0;
  int64_t from = data.offset + first, to = data.offset + end;
  switch (data.type->id()) {
    case Type::STRING:
    case Type::BINARY: {
      auto* offsets = data.GetValues<int32_t>(1, 0);
      return 4 * (to - from) + offsets[to] - offsets[from];
    }
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY: {
      auto* offsets = data.GetValues<int64_t>(1, 0);
      return 8 * (to - from) + offsets[to] - offsets[from];
    }
    case Type::LIST:
    case Type::MAP: {
      auto* offsets = data.GetValues<int32_t>(1, 0);
      return 4 * (to - from) + bytes_of_rows(*data.child_data[0], offsets[from], offsets[to]);
    }
    case Type::LARGE_LIST: {
      auto* offsets = data.GetValues<int64_t>(1, 0);
      return 8 * (to - from) + bytes_of_rows(*data.child_data[0], offsets[from], offsets[to]);
    }
    case Type::FIXED_SIZE_LIST: {
      int64_t size = static_cast<const arrow::FixedSizeListType&>(*data.type).list_size();
      return bytes_of_rows(*data.child_data[0], from * size, to * size);
    }
    case Type::STRUCT: {
      int64_t bytes = 0;
      for (const auto& child : data.child_data) bytes += bytes_of_rows(*child, from, to);
      return bytes;
    }
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW: {
      auto* views = data.GetValues<arrow::BinaryViewType::c_type>(1, 0);
      int64_t bytes = 0;
      for (int64_t i = from; i < to; ++i) bytes += 16 + views[i].size();
      return bytes;
    }
    default:
      return (to - from) * bytes_of_value(*data.type);
  }
}

// Whether values are elsewhere than in the buffers of their rows.
bool is_indirect(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::DICTIONARY:
    case arrow::Type::EXTENSION:
    case arrow::Type::RUN_END_ENCODED:
    case arrow::Type::SPARSE_UNION:
    case arrow::Type::DENSE_UNION:
    case arrow::Type::LIST_VIEW:
    case arrow::Type::LARGE_LIST_VIEW:
      return true;
    default:
      return std::any_of(type.fields().begin(), type.fields().end(),
                         [](const auto& field) { return is_indirect(*field->type()); });
  }
}

}  // namespace

int64_t bytes_of_rows(const arrow::RecordBatch& batch, int64_t first, int64_t end) {
  int64_t bytes = 0;
  for (const auto& column : batch.columns()) bytes += bytes_of_rows(*column->data(), first, end);
  return bytes;
}

std::optional<int64_t> bytes_beside_text(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return 4;
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return 8;
    default:
      if (!arrow::is_primitive(type.id()) && !arrow::is_decimal(type.id()) &&
          type.id() != arrow::Type::FIXED_SIZE_BINARY) {
        return std::nullopt;
      }
      return bytes_of_value(type);
  }
}

int64_t guess_bytes_of(const arrow::DataType& type) { return bytes_of_value(type); }

int64_t guess_bytes_of_row(const arrow::Schema& schema) {
  int64_t bytes = 0;
  for (const auto& field : schema.fields()) bytes += bytes_of_value(*field->type());
  return bytes;
}

int64_t rows_at_a_time(const arrow::Schema& made, const arrow::Schema& of) {
  constexpr int64_t kWideRow = 4 << 10, kMostBytes = 32 << 20;
  int64_t bytes = guess_bytes_of_row(made);
  if (bytes < kWideRow || bytes < 2 * guess_bytes_of_row(of)) return INT64_MAX;
  return std::max<int64_t>(kMostBytes / bytes, 1);
}

int64_t bytes_of_batch(const arrow::RecordBatch& batch) {
  int64_t bytes = 0;
  for (const auto& column : batch.columns()) {
    if (!is_indirect(*column->type())) {
      bytes += bytes_of_rows(*column->data(), 0, column->length());
      continue;
    }
    auto referenced = arrow::util::ReferencedBufferSize(*column);
    bytes += referenced.ok() ? *referenced : arrow::util::TotalBufferSize(*column);
  }
  return bytes;
}

}  // namespace manta::data
