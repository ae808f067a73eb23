#include "manta/preprocess/concatenator.h"

#include <arrow/api.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/preprocess/category_values_internal.h"
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

// The elements of lists that all have one length.
Part elements_of(const std::shared_ptr<arrow::Array>& column, const std::string& name,
                 const internal::ListLengths& lengths, size_t number) {
  auto lists = *preprocess::ListRows::of(column);
  preprocess::require_numbers(*lists.values->type(), name, "Concatenator");
  auto fail = [&](int64_t row, const std::string& what) {
    throw Error(ErrorKind::kInvalidArgument, str("Concatenator: column '", name, "' holds ", what,
                                                 " in row ", row, " of the batch"));
  };
  int64_t rows = column->length();
  bool fixed = column->type_id() == Type::FIXED_SIZE_LIST;
  int64_t width =
      fixed ? static_cast<const arrow::FixedSizeListType&>(*column->type()).list_size() : 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (column->IsNull(row)) fail(row, "a null instead of a list, for which there is no length,");
    int64_t length = lists.end(row) - lists.begin(row);
    if (row == 0 && !fixed) width = lengths.known(number, length);
    if (length != width) {
      fail(row, str("a list of ", length, " elements after others of ", width,
                    ", of which no vectors of one length can be made: pad or cut them before,"));
    }
  }
  int64_t first = rows == 0 ? 0 : lists.begin(0);
  return {lists.values->Slice(first, rows * width), width, name};
}

template <class ArrowType>
std::shared_ptr<arrow::Array> concatenated(const std::vector<Part>& parts, int64_t rows, bool fixed,
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
  return fixed ? preprocess::vectors<ArrowType>(std::move(buffer), width, rows)
               : preprocess::equal_lists<ArrowType>(std::move(buffer), width, rows);
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
      flatten_(options.flatten),
      lengths_(columns_.size()) {
  if (dtype_.empty() || dtype_ == "float32" || dtype_ == "float64" || dtype_ == "int32" ||
      dtype_ == "int64") {
    return;
  }
  throw Error(ErrorKind::kInvalidArgument,
              str("Concatenator: dtype must be \"float32\", \"float64\", \"int32\" or \"int64\" "
                  "(was \"",
                  dtype_, "\")"));
}

internal::ListLengths& internal::ListLengths::operator=(const ListLengths& from) {
  if (this != &from) lengths_ = ListLengths(from).lengths_;
  return *this;
}

int64_t internal::ListLengths::known(size_t column, int64_t length) const {
  int64_t before = kUnknown;
  return lengths_[column].compare_exchange_strong(before, length) ? length : before;
}

std::vector<std::string> Concatenator::removed_columns() const { return columns_.removed(); }

data::BatchPtr Concatenator::transform_batch(const data::BatchPtr& batch) const {
  auto arrays = columns_.of(*batch);
  std::vector<Part> parts;
  bool fixed = true;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::string& column = columns_.inputs()[i];
    auto id = arrays[i]->type_id();
    bool is_list = id == Type::LIST || id == Type::LARGE_LIST;
    if (id != Type::FIXED_SIZE_LIST && !is_list) {
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
    parts.push_back(elements_of(arrays[i], column, lengths_, i));
    fixed = fixed && !is_list;
  }
  std::string dtype = dtype_.empty() ? common_type(parts) : dtype_;
  int64_t rows = batch->num_rows();
  auto made = [&]<class ArrowType>(ArrowType*) {
    return concatenated<ArrowType>(parts, rows, fixed, dtype);
  };
  auto result = dtype == "float32"   ? made(static_cast<arrow::FloatType*>(nullptr))
                : dtype == "float64" ? made(static_cast<arrow::DoubleType*>(nullptr))
                : dtype == "int32"   ? made(static_cast<arrow::Int32Type*>(nullptr))
                                     : made(static_cast<arrow::Int64Type*>(nullptr));
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
