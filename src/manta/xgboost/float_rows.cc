#include <arrow/api.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/float16.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "manta/base/error_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/xgboost/float_rows_internal.h"

namespace manta::xgboost {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

template <class T>
void write_values(const arrow::ArrayData& data, int64_t offset, int64_t rows, float* out,
                  int64_t stride) {
  const T* values = data.GetValues<T>(1) + offset;
  for (int64_t i = 0; i < rows; ++i) out[i * stride] = static_cast<float>(values[i]);
}

template <>
void write_values<bool>(const arrow::ArrayData& data, int64_t offset, int64_t rows, float* out,
                        int64_t stride) {
  const uint8_t* bits = data.buffers[1]->data();
  int64_t first = data.offset + offset;
  for (int64_t i = 0; i < rows; ++i) {
    out[i * stride] = arrow::bit_util::GetBit(bits, first + i) ? 1.0f : 0.0f;
  }
}

template <>
void write_values<arrow::util::Float16>(const arrow::ArrayData& data, int64_t offset, int64_t rows,
                                        float* out, int64_t stride) {
  const auto* values = data.GetValues<uint16_t>(1) + offset;
  for (int64_t i = 0; i < rows; ++i) {
    out[i * stride] = arrow::util::Float16::FromBits(values[i]).ToFloat();
  }
}

using WriteValues = void (*)(const arrow::ArrayData&, int64_t, int64_t, float*, int64_t);

WriteValues writer_of(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::BOOL:
      return write_values<bool>;
    case arrow::Type::INT8:
      return write_values<int8_t>;
    case arrow::Type::INT16:
      return write_values<int16_t>;
    case arrow::Type::INT32:
      return write_values<int32_t>;
    case arrow::Type::INT64:
      return write_values<int64_t>;
    case arrow::Type::UINT8:
      return write_values<uint8_t>;
    case arrow::Type::UINT16:
      return write_values<uint16_t>;
    case arrow::Type::UINT32:
      return write_values<uint32_t>;
    case arrow::Type::UINT64:
      return write_values<uint64_t>;
    case arrow::Type::HALF_FLOAT:
      return write_values<arrow::util::Float16>;
    case arrow::Type::FLOAT:
      return write_values<float>;
    case arrow::Type::DOUBLE:
      return write_values<double>;
    default:
      return nullptr;
  }
}

bool may_be_infinite(const arrow::DataType& type) { return arrow::is_floating(type.id()); }

}  // namespace

bool is_number_column(const arrow::DataType& type) {
  return type.id() == arrow::Type::NA || writer_of(type) != nullptr;
}

void require_number_columns(const arrow::Schema& schema, const std::vector<std::string>& names,
                            const std::string& where) {
  for (const auto& name : names) {
    auto field = schema.GetFieldByName(name);
    if (!field || is_number_column(*field->type())) continue;
    bool is_category = field->type()->id() == arrow::Type::DICTIONARY;
    throw Error(ErrorKind::kInvalidArgument,
                str("the column '", name, "' of ", where, " is of type ", field->type()->ToString(),
                    ", which trees cannot be trained on here: ",
                    is_category ? "categories must become numbers first, by a preprocessor or "
                                  "with_column"
                                : "make it a number, by a preprocessor or with_column",
                    ", or drop_columns it"));
  }
}

void write_floats(const arrow::ArrayData& column, int64_t offset, int64_t rows, float* out,
                  int64_t stride) {
  auto write = writer_of(*column.type);
  if (!write) {  // a column of nulls only
    for (int64_t i = 0; i < rows; ++i) out[i * stride] = kMissing;
    return;
  }
  write(column, offset, rows, out, stride);
  if (!column.buffers[0] || column.GetNullCount() == 0) return;
  for (int64_t i = 0; i < rows; ++i) {
    if (column.IsNull(offset + i)) out[i * stride] = kMissing;
  }
}

FloatRows::FloatRows(const std::vector<std::string>& columns, std::string where)
    : columns_(columns), where_(std::move(where)) {}

void FloatRows::look_up(const arrow::Schema& schema) {
  places_.clear();
  for (const auto& name : columns_) {
    int place = schema.GetFieldIndex(name);
    if (place < 0) {
      throw Error(ErrorKind::kNotFound, str(where_, " has no column '", name, "'; it has ",
                                            data::join(schema.field_names())));
    }
    if (!is_number_column(*schema.field(place)->type())) {
      require_number_columns(schema, {name}, where_);
    }
    places_.push_back(place);
  }
}

// realloc moves large pieces of memory by their pages, without a copy.
void FloatRows::reserve(int64_t rows) {
  if (rows <= capacity_) return;
  int64_t capacity = std::max(rows, capacity_ + capacity_ / 2);
  auto bytes = static_cast<size_t>(capacity) * columns_.size() * sizeof(float);
  auto* grown = static_cast<float*>(std::realloc(data_.get(), std::max<size_t>(bytes, 1)));
  if (!grown) {
    throw Error(ErrorKind::kResources,
                str("no memory for ", capacity, " rows of ", where_, ", ", bytes,
                    " bytes: use more workers on other machines, "
                    "or fewer rows or columns"));
  }
  (void)data_.release();
  data_.reset(grown);
  capacity_ = capacity;
}

void FloatRows::append(const arrow::RecordBatch& batch, int64_t offset, int64_t rows,
                       int64_t first_row) {
  if (batch.schema() != schema_) {
    look_up(*batch.schema());
    schema_ = batch.schema();
  }
  reserve(rows_ + rows);
  int64_t width = columns();
  float* begin = data_.get() + rows_ * width;
  for (int64_t k = 0; k < width; ++k) {
    int place = places_[static_cast<size_t>(k)];
    const arrow::ArrayData& column = *batch.column_data(place);
    write_floats(column, offset, rows, begin + k, width);
    if (!may_be_infinite(*column.type)) continue;
    for (int64_t i = 0; i < rows; ++i) {
      if (!std::isinf(begin[i * width + k])) continue;
      throw Error(ErrorKind::kInvalidArgument,
                  str("the column '", columns_[static_cast<size_t>(k)], "' of ", where_, " has ",
                      batch.column(place)->GetScalar(offset + i).ValueOrDie()->ToString(),
                      " in row ", first_row + i,
                      ", and trees take finite numbers within float32 only: make it null, which "
                      "counts as missing, or filter such rows"));
    }
  }
  rows_ += rows;
}

}  // namespace manta::xgboost
