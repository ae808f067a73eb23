#include "manta/preprocess/concatenator.h"

#include <arrow/api.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/preprocess/numbers_internal.h"
#include "manta/preprocess/vectors_internal.h"

namespace manta {
namespace {

using arrow::Type;

// A column, or the elements of its vectors: `width` values a row.
struct Part {
  std::shared_ptr<arrow::Array> values;
  int64_t width = 1;
  const std::string& name;
};

[[noreturn]] void refuse_value(const Part& part, int64_t row, const std::string& value,
                               const std::string& dtype) {
  throw Error(ErrorKind::kInvalidArgument,
              str("Concatenator: column '", part.name, "' holds ", value, " in row ", row,
                  " of the batch, which ", dtype,
                  " cannot hold; fill or change it before, or set dtype to \"float64\""));
}

template <class To, class From>
To exactly(From x, const Part& part, int64_t row, const std::string& dtype) {
  if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(x);
  } else if constexpr (std::is_floating_point_v<From>) {
    constexpr auto kBound = static_cast<From>(-static_cast<double>(std::numeric_limits<To>::min()));
    if (!(x >= -kBound && x < kBound && x == std::trunc(x))) refuse_value(part, row, str(x), dtype);
    return static_cast<To>(x);
  } else {
    if (!std::in_range<To>(x)) refuse_value(part, row, str(+x), dtype);
    return static_cast<To>(x);
  }
}

template <class To, class Value>
void write_part(const Part& part, int64_t rows, To* to, int64_t stride, const std::string& dtype,
                Value value) {
  const auto& values = *part.values;
  bool has_nulls = values.null_count() > 0;
  int64_t at = 0;
  for (int64_t row = 0; row < rows; ++row, to += stride) {
    for (int64_t i = 0; i < part.width; ++i, ++at) {
      if (!has_nulls || values.IsValid(at)) {
        to[i] = exactly<To>(value(at), part, row, dtype);
      } else if constexpr (std::is_floating_point_v<To>) {
        to[i] = std::numeric_limits<To>::quiet_NaN();
      } else {
        refuse_value(part, row, "a null", dtype);
      }
    }
  }
}

template <class To>
void write_part(const Part& part, int64_t rows, To* to, int64_t stride, const std::string& dtype) {
  auto of = [&]<class ArrowType>(ArrowType*) {
    const auto* raw = static_cast<const arrow::NumericArray<ArrowType>&>(*part.values).raw_values();
    write_part(part, rows, to, stride, dtype, [=](int64_t i) { return raw[i]; });
  };
  switch (part.values->type_id()) {
    case Type::INT8:
      return of(static_cast<arrow::Int8Type*>(nullptr));
    case Type::INT16:
      return of(static_cast<arrow::Int16Type*>(nullptr));
    case Type::INT32:
      return of(static_cast<arrow::Int32Type*>(nullptr));
    case Type::INT64:
      return of(static_cast<arrow::Int64Type*>(nullptr));
    case Type::UINT8:
      return of(static_cast<arrow::UInt8Type*>(nullptr));
    case Type::UINT16:
      return of(static_cast<arrow::UInt16Type*>(nullptr));
    case Type::UINT32:
      return of(static_cast<arrow::UInt32Type*>(nullptr));
    case Type::UINT64:
      return of(static_cast<arrow::UInt64Type*>(nullptr));
    case Type::FLOAT:
      return of(static_cast<arrow::FloatType*>(nullptr));
    case Type::DOUBLE:
      return of(static_cast<arrow::DoubleType*>(nullptr));
    case Type::BOOL:
      return write_part(part, rows, to, stride, dtype, [&](int64_t i) {
        return static_cast<int32_t>(static_cast<const arrow::BooleanArray&>(*part.values).Value(i));
      });
    default: {
      auto numbers = preprocess::numbers_of(part.values, part.name, "Concatenator");
      return write_part(part, rows, to, stride, dtype,
                        [raw = numbers->raw_values()](int64_t i) { return raw[i]; });
    }
  }
}

std::string common_type(const std::vector<Part>& parts) {
  bool floats = true, integers = true;
  for (const auto& part : parts) {
    auto id = part.values->type_id();
    floats = floats && id == Type::FLOAT;
    integers = integers && (arrow::is_integer(id) || id == Type::BOOL);
  }
  return floats ? "float32" : integers ? "int64" : "float64";
}

template <class ArrowType>
std::shared_ptr<arrow::Array> concatenated(const std::vector<Part>& parts, int64_t rows,
                                           const std::string& dtype) {
  using To = typename ArrowType::c_type;
  int64_t width = 0;
  for (const auto& part : parts) width += part.width;
  auto buffer = preprocess::new_buffer(rows * width * static_cast<int64_t>(sizeof(To)));
  To* to = reinterpret_cast<To*>(buffer->mutable_data());
  for (const auto& part : parts) {
    write_part(part, rows, to, width, dtype);
    to += part.width;
  }
  return preprocess::vectors<ArrowType>(std::move(buffer), width, rows);
}

std::vector<std::string> without(std::vector<std::string> names, const std::string& name) {
  std::erase(names, name);
  return names;
}

}  // namespace

Concatenator::Concatenator(std::vector<std::string> columns, const ConcatenatorOptions& options)
    : columns_("Concatenator", columns, {options.output_column_name},
               without(columns, options.output_column_name)),
      dtype_(options.dtype),
      flatten_(options.flatten) {
  if (dtype_.empty() || dtype_ == "float32" || dtype_ == "float64" || dtype_ == "int32" ||
      dtype_ == "int64") {
    return;
  }
  throw Error(ErrorKind::kInvalidArgument,
              str("Concatenator: dtype must be \"float32\", \"float64\", \"int32\" or \"int64\" "
                  "(was \"",
                  dtype_, "\")"));
}

std::vector<std::string> Concatenator::removed_columns() const { return columns_.removed(); }

data::BatchPtr Concatenator::transform_batch(const data::BatchPtr& batch) const {
  auto arrays = columns_.of(*batch);
  std::vector<Part> parts;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::string& column = columns_.inputs()[i];
    if (arrays[i]->type_id() != Type::FIXED_SIZE_LIST) {
      preprocess::require_numbers(*arrays[i]->type(), column, name());
      parts.push_back({arrays[i], 1, column});
      continue;
    }
    if (!flatten_) {
      throw Error(
          ErrorKind::kInvalidArgument,
          str("Concatenator: column '", column, "' holds vectors, of type ",
              arrays[i]->type()->ToString(), "; set `flatten` to put their elements in a row"));
    }
    const auto& vectors = static_cast<const arrow::FixedSizeListArray&>(*arrays[i]);
    if (vectors.null_count() > 0) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("Concatenator: column '", column,
                      "' holds a null instead of a vector; drop_na before"));
    }
    int64_t width = vectors.list_type()->list_size();
    auto elements = vectors.values()->Slice(vectors.offset() * width, vectors.length() * width);
    preprocess::require_numbers(*elements->type(), column, name());
    parts.push_back({std::move(elements), width, column});
  }
  std::string dtype = dtype_.empty() ? common_type(parts) : dtype_;
  int64_t rows = batch->num_rows();
  auto result = dtype == "float32"   ? concatenated<arrow::FloatType>(parts, rows, dtype)
                : dtype == "float64" ? concatenated<arrow::DoubleType>(parts, rows, dtype)
                : dtype == "int32"   ? concatenated<arrow::Int32Type>(parts, rows, dtype)
                                     : concatenated<arrow::Int64Type>(parts, rows, dtype);
  return columns_.with(batch, {std::move(result)});
}

Json Concatenator::state() const {
  return {{"columns", columns_.inputs()},
          {"output_column_name", columns_.outputs()[0]},
          {"dtype", dtype_},
          {"flatten", flatten_}};
}

Concatenator Concatenator::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  return Concatenator(fields.texts("columns", data::kLongestName),
                      {.output_column_name = fields.text("output_column_name", data::kLongestName),
                       .dtype = fields.text("dtype"),
                       .flatten = fields.boolean("flatten")});
}

}  // namespace manta
