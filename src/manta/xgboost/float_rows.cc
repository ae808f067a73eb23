#include <arrow/api.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/float16.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/unknown_column_internal.h"
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

// The type of a vector's elements; otherwise the column's own.
const arrow::DataType& number_type(const arrow::DataType& type) {
  if (type.id() != arrow::Type::FIXED_SIZE_LIST) return type;
  return *static_cast<const arrow::FixedSizeListType&>(type).value_type();
}

bool may_be_infinite(const arrow::DataType& type) {
  return arrow::is_floating(number_type(type).id());
}

void write_vectors(const arrow::ArrayData& column, int64_t offset, int64_t rows, float* out,
                   int64_t stride, int64_t width) {
  const arrow::ArrayData& elements = *column.child_data[0];
  for (int64_t i = 0; i < rows; ++i, out += stride) {
    if (column.IsNull(offset + i)) {
      std::fill_n(out, width, kMissing);
    } else {
      write_floats(elements, (column.offset + offset + i) * width, width, out, 1);
    }
  }
}

// The place, from `offset` on, of the first integer that float32 does not hold.
template <class T>
std::optional<int64_t> first_rounded_of(const arrow::ArrayData& data, int64_t offset,
                                        int64_t count) {
  const T* values = data.GetValues<T>(1) + offset;
  for (int64_t i = 0; i < count; ++i) {
    // A number with at most 24 binary digits before its trailing zeros is exact.
    using Unsigned = std::make_unsigned_t<T>;
    auto distance = values[i] < 0 ? Unsigned{0} - static_cast<Unsigned>(values[i])
                                  : static_cast<Unsigned>(values[i]);
    if (distance >> 24 == 0) continue;
    bool exact = (distance >> std::countr_zero(distance)) >> 24 == 0;
    if (!exact && data.IsValid(offset + i)) return i;
  }
  return std::nullopt;
}
std::optional<int64_t> first_rounded(const arrow::ArrayData& data, int64_t offset, int64_t count) {
  switch (data.type->id()) {
    case arrow::Type::INT32:
      return first_rounded_of<int32_t>(data, offset, count);
    case arrow::Type::INT64:
      return first_rounded_of<int64_t>(data, offset, count);
    case arrow::Type::UINT32:
      return first_rounded_of<uint32_t>(data, offset, count);
    case arrow::Type::UINT64:
      return first_rounded_of<uint64_t>(data, offset, count);
    default:
      return std::nullopt;
  }
}

}  // namespace

FeatureColumn feature_column(const arrow::Schema& schema, const std::string& name) {
  const auto& type = *schema.GetFieldByName(name)->type();
  if (type.id() != arrow::Type::FIXED_SIZE_LIST) return {name, 0};
  return {name, static_cast<const arrow::FixedSizeListType&>(type).list_size()};
}

std::vector<std::string> feature_names(const std::vector<FeatureColumn>& columns) {
  std::vector<std::string> names;
  for (const auto& [name, width] : columns) {
    if (width == 0) names.push_back(name);
    for (int64_t i = 0; i < width; ++i) names.push_back(str(name, "_", i));
  }
  auto sorted = names;
  std::sort(sorted.begin(), sorted.end());
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("two features would be called '", *twice,
            "', a column and an element of a vector; give one of the columns another name"));
  }
  return names;
}

bool is_number_column(const arrow::DataType& type) {
  const auto& numbers = number_type(type);
  bool is_empty_vector = type.id() == arrow::Type::FIXED_SIZE_LIST &&
                         static_cast<const arrow::FixedSizeListType&>(type).list_size() == 0;
  return !is_empty_vector && (numbers.id() == arrow::Type::NA || writer_of(numbers) != nullptr);
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

FloatRows::FloatRows(const std::vector<FeatureColumn>& columns, std::string where, bool warns)
    : columns_(columns), where_(std::move(where)), to_warn_of_(columns.size(), warns) {
  for (const auto& column : columns_) width_ += std::max<int64_t>(column.width, 1);
}

void FloatRows::look_up(const arrow::Schema& schema) {
  places_.clear();
  for (const auto& [name, width] : columns_) {
    int place = schema.GetFieldIndex(name);
    if (place < 0) {
      throw Error(ErrorKind::kNotFound,
                  str(where_, ": ", data::no_such_column(name, schema.field_names())));
    }
    if (!is_number_column(*schema.field(place)->type())) {
      require_number_columns(schema, {name}, where_);
    }
    if (feature_column(schema, name).width != width) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("the column '", name, "' of ", where_, " is of type ",
                      schema.field(place)->type()->ToString(), ", and the model was trained on ",
                      width == 0 ? std::string("one number a row") : str("vectors of ", width)));
    }
    places_.push_back(place);
  }
}

void FloatRows::warn_of_rounded(size_t column, const arrow::Array& values, int64_t offset,
                                int64_t rows, int64_t first_row) {
  if (!to_warn_of_[column]) return;
  int64_t width = std::max<int64_t>(columns_[column].width, 1);
  const arrow::ArrayData* numbers = values.data().get();
  int64_t first = offset;
  if (columns_[column].width > 0) {
    first = (numbers->offset + offset) * width;
    numbers = numbers->child_data[0].get();
  }
  auto place = first_rounded(*numbers, first, rows * width);
  if (!place) return;
  to_warn_of_[column] = false;
  log_warning(str("the column '", columns_[column].name, "' of ", where_, " has ",
                  values.GetScalar(offset + *place / width).ValueOrDie()->ToString(), " in row ",
                  first_row + *place / width,
                  ", which is rounded to float32, in which trees are trained; others may become "
                  "the same number: drop_columns it if it only names things, or make categories of "
                  "it with a preprocessor"));
}

// realloc moves large pieces of memory by their pages, without a copy.
void FloatRows::reserve(int64_t rows) {
  if (rows <= capacity_) return;
  int64_t capacity = std::max(rows, capacity_ + capacity_ / 2);
  auto bytes = static_cast<size_t>(capacity * width_) * sizeof(float);
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
  float* begin = data_.get() + rows_ * width_;
  for (size_t k = 0; k < columns_.size(); ++k) {
    int place = places_[k];
    const arrow::ArrayData& column = *batch.column_data(place);
    int64_t width = columns_[k].width;
    if (width == 0) {
      write_floats(column, offset, rows, begin, width_);
    } else {
      write_vectors(column, offset, rows, begin, width_, width);
    }
    warn_of_rounded(k, *batch.column(place), offset, rows, first_row);
    for (int64_t i = 0; may_be_infinite(*column.type) && i < rows; ++i) {
      const float* values = begin + i * width_;
      if (std::none_of(values, values + std::max<int64_t>(width, 1),
                       [](float x) { return std::isinf(x); })) {
        continue;
      }
      throw Error(ErrorKind::kInvalidArgument,
                  str("the column '", columns_[k].name, "' of ", where_, " has ",
                      batch.column(place)->GetScalar(offset + i).ValueOrDie()->ToString(),
                      " in row ", first_row + i,
                      ", and trees take finite numbers within float32 only: make it null, which "
                      "counts as missing, or filter such rows"));
    }
    begin += std::max<int64_t>(width, 1);
  }
  rows_ += rows;
}

}  // namespace manta::xgboost
