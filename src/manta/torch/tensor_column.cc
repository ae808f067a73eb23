#include <arrow/array.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/torch/exact_cast_internal.h"
#include "manta/torch/tensor_column_internal.h"

namespace manta::detail {
namespace {

/// Some numbers of a column, and where they go.
struct ColumnCopy {
  const TensorColumn& column;
  const arrow::Array& array;
  int64_t offset = 0;       // in `array`
  int64_t rows = 0;         // how many numbers
  int64_t first_row = 0;    // the row of `column` that has the first of them
  void* to = nullptr;       // the first number
  int64_t stride = 1;       // the distance between places
  torch::Dtype dtype = {};  // the type of the numbers at `to`
  Inexact inexact = Inexact::kRefused;

  int64_t row_of(int64_t number) const {
    return column.row_of(first_row + number / std::max<int64_t>(column.width(), 1));
  }
};

[[noreturn]] void refuse(const ColumnCopy& copy, int64_t row, const std::string& value) {
  std::string advice;
  torch::Dtype own = own_dtype(*copy.array.type(), copy.column.name);
  if (own != copy.dtype) {
    advice = manta::str("read the column as ", dtype_name(own), ", its own type, ");
  }
  throw Error(
      ErrorKind::kInvalidArgument,
      manta::str("column '", copy.column.name, "' of type ", copy.column.type->ToString(), ": row ",
                 copy.row_of(row), " of the batch holds ", value, ", which ",
                 dtype_name(copy.dtype), " cannot hold: ", advice, advice.empty() ? "" : "or ",
                 "change it in the data set, or ask for the nearest value by giving "
                 "Inexact::kAllowed to column() or columns()"));
}

[[noreturn]] void refuse_null(const ColumnCopy& copy, int64_t row) {
  throw Error(
      ErrorKind::kInvalidArgument,
      manta::str("column '", copy.column.name, "' has a null in row ", copy.row_of(row),
                 " of the batch, which ", dtype_name(copy.dtype),
                 " cannot hold: use drop_na(), or a floating-point dtype, where it is NaN"));
}

template <class T>
std::string printed(T value) {
  std::ostringstream out;
  out.precision(std::numeric_limits<T>::max_digits10);
  out << +value;  // prints a byte as a number
  return out.str();
}

// Goes through the rows one by one, for nulls and for doubtful values.
template <class To, class Exact>
void settle(const ColumnCopy& copy, To* to, bool doubtful, const Exact& check) {
  for (int64_t i = 0; i < copy.rows; ++i) {
    if (copy.array.IsValid(copy.offset + i)) {
      if (doubtful) check(i);
    } else if constexpr (!is_whole<To>) {
      to[i * copy.stride] = std::numeric_limits<To>::quiet_NaN();
    } else if (copy.inexact == Inexact::kAllowed) {
      to[i * copy.stride] = 0;
    } else {
      refuse_null(copy, i);
    }
  }
}

template <class To, class From>
void copy_numbers(const ColumnCopy& copy, const From* from, To* to) {
  using Cast = ExactCast<To, From>;
  bool doubtful = false;
  if (copy.inexact == Inexact::kRefused || Cast::kAlwaysExact) {
    Cast cast;
    for (int64_t i = 0; i < copy.rows; ++i) to[i * copy.stride] = cast(from[i]);
    doubtful = cast.doubtful();
  } else {
    for (int64_t i = 0; i < copy.rows; ++i) to[i * copy.stride] = Cast::nearest(from[i]);
  }
  if (!doubtful && copy.array.null_count() == 0) return;
  settle(copy, to, doubtful, [&](int64_t row) {
    if (!Cast::exact(from[row])) refuse(copy, row, printed(from[row]));
  });
}

template <class To>
void copy_bits(const ColumnCopy& copy, const uint8_t* bits, int64_t at, To* to) {
  for (int64_t i = 0; i < copy.rows; ++i) {
    to[i * copy.stride] = static_cast<To>(arrow::bit_util::GetBit(bits, at + i));
  }
  if (copy.array.null_count() > 0) settle(copy, to, false, [](int64_t) {});
}

template <class To>
void copy_halves(const ColumnCopy& copy, const uint16_t* from, To* to) {
  std::vector<float> wide(static_cast<size_t>(copy.rows));
  for (size_t i = 0; i < wide.size(); ++i) {
    wide[i] = static_cast<float>(c10::Half(from[i], c10::Half::from_bits()));
  }
  copy_numbers(copy, wide.data(), to);
}

// Calls `function` with a pointer to the C++ type in which Arrow keeps the column's values: bool
// for bits, c10::Half for float16.
template <class F>
bool with_stored_type(arrow::Type::type id, const F& function) {
  auto call = [&]<class T>(T* type) {
    function(type);
    return true;
  };
  switch (id) {
    case arrow::Type::BOOL:
      return call(static_cast<bool*>(nullptr));
    case arrow::Type::INT8:
      return call(static_cast<int8_t*>(nullptr));
    case arrow::Type::INT16:
      return call(static_cast<int16_t*>(nullptr));
    case arrow::Type::INT32:
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
      return call(static_cast<int32_t*>(nullptr));
    case arrow::Type::INT64:
    case arrow::Type::DATE64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
      return call(static_cast<int64_t*>(nullptr));
    case arrow::Type::UINT8:
      return call(static_cast<uint8_t*>(nullptr));
    case arrow::Type::UINT16:
      return call(static_cast<uint16_t*>(nullptr));
    case arrow::Type::UINT32:
      return call(static_cast<uint32_t*>(nullptr));
    case arrow::Type::UINT64:
      return call(static_cast<uint64_t*>(nullptr));
    case arrow::Type::HALF_FLOAT:
      return call(static_cast<c10::Half*>(nullptr));
    case arrow::Type::FLOAT:
      return call(static_cast<float*>(nullptr));
    case arrow::Type::DOUBLE:
      return call(static_cast<double*>(nullptr));
    default:
      return false;
  }
}

template <class To>
void copy_as(const ColumnCopy& copy) {
  const arrow::ArrayData& data = *copy.array.data();
  if (copy.rows == 0) return;  // there may be no buffer
  int64_t at = data.offset + copy.offset;
  To* to = static_cast<To*>(copy.to);
  with_stored_type(data.type->id(), [&]<class From>(From*) {
    const uint8_t* bytes = data.buffers[1]->data();
    if constexpr (std::is_same_v<From, bool>) {
      copy_bits(copy, bytes, at, to);
    } else if constexpr (std::is_same_v<From, c10::Half>) {
      copy_halves(copy, reinterpret_cast<const uint16_t*>(bytes) + at, to);
    } else {
      copy_numbers(copy, reinterpret_cast<const From*>(bytes) + at, to);
    }
  });
}

struct TensorType {
  torch::Dtype dtype;
  const char* name;
  void (*copy)(const ColumnCopy&);
};
constexpr TensorType kTensorTypes[] = {
    {torch::kFloat32, "torch::kFloat32", copy_as<float>},
    {torch::kFloat64, "torch::kFloat64", copy_as<double>},
    {torch::kInt64, "torch::kInt64", copy_as<int64_t>},
    {torch::kInt32, "torch::kInt32", copy_as<int32_t>},
    {torch::kInt16, "torch::kInt16", copy_as<int16_t>},
    {torch::kInt8, "torch::kInt8", copy_as<int8_t>},
    {torch::kUInt8, "torch::kUInt8", copy_as<uint8_t>},
    {torch::kBool, "torch::kBool", copy_as<bool>},
    {torch::kFloat16, "torch::kFloat16", copy_as<c10::Half>},
    {torch::kBFloat16, "torch::kBFloat16", copy_as<c10::BFloat16>},
};

const TensorType* find_type(torch::Dtype dtype) {
  for (const TensorType& type : kTensorTypes) {
    if (type.dtype == dtype) return &type;
  }
  return nullptr;
}

}  // namespace

std::string dtype_name(torch::Dtype dtype) {
  const TensorType* type = find_type(dtype);
  return type ? type->name : c10::toString(dtype);
}

torch::Dtype own_dtype(const arrow::DataType& type, const std::string& column) {
  const arrow::DataType& numbers = number_type(type, column);
  torch::Dtype own = torch::kInt64;
  with_stored_type(numbers.id(), [&]<class T>(T*) {
    if constexpr (std::is_same_v<T, uint16_t>) {
      own = torch::kInt32;
    } else if constexpr (!std::is_same_v<T, uint32_t> && !std::is_same_v<T, uint64_t>) {
      if (!arrow::is_temporal(numbers.id())) own = c10::CppTypeToScalarType<T>::value;
    }
  });
  return own;
}

namespace {

const TensorType& known_type(torch::Dtype dtype, const std::string& column) {
  if (const TensorType* type = find_type(dtype)) return *type;
  std::string names;
  for (const TensorType& known : kTensorTypes) names += manta::str(" ", known.name);
  throw Error(ErrorKind::kInvalidArgument,
              manta::str("column '", column, "' cannot be made a tensor of type ",
                         c10::toString(dtype), "; use one of:", names));
}

// `at` is the first number of the column's first row, and its next row begins `row_stride` numbers
// later.
void copy_rows(const TensorColumn& column, char* at, int64_t row_stride, torch::Dtype dtype,
               Inexact inexact) {
  const TensorType& type = known_type(dtype, column.name);
  auto size = static_cast<int64_t>(c10::elementSize(dtype));
  int64_t width = column.width(), row = 0;
  for (const Elements& part : column.parts) {
    auto copy = [&](int64_t begin, int64_t rows) {
      type.copy({.column = column,
                 .array = *part.values,
                 .offset = part.offset + begin * width,
                 .rows = rows * width,
                 .first_row = row + begin,
                 .to = at + (row + begin) * row_stride * size,
                 .stride = width == 1 ? row_stride : 1,
                 .dtype = dtype,
                 .inexact = inexact});
    };
    // Copies row by row, unless the rows are adjacent.
    if (width == 1 || width == row_stride) {
      copy(0, part.rows);
    } else {
      for (int64_t i = 0; width > 0 && i < part.rows; ++i) copy(i, 1);
    }
    row += part.rows;
  }
}

int64_t padded_length(const RaggedColumn& column, const TorchPadding& padding) {
  const std::string& name = column.elements.name;
  if (padding.length < 0) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("padding of column '", name, "': a length of at least 1, or 0 for that ",
                           "of the longest row, not ", padding.length));
  }
  int64_t longest = 0;
  for (size_t row = 1; row < column.offsets.size(); ++row) {
    int64_t length = column.offsets[row] - column.offsets[row - 1];
    longest = std::max(longest, length);
    if (padding.length == 0 || length <= padding.length) continue;
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("column '", name, "' of type ", column.elements.type->ToString(),
                           ": row ", row - 1, " of the batch has ", length,
                           " elements, and its padding is of length ", padding.length,
                           ": raise the length, or shorten the rows with map_batches"));
  }
  return padding.length > 0 ? padding.length : longest;
}

void require_exact(const TorchPadding& padding, torch::Dtype dtype, const std::string& column) {
  if (c10::isFloatingType(dtype)) return;
  auto as_it_is = torch::full({1}, padding.value, torch::kFloat64);
  if (torch::equal(as_it_is.to(dtype).to(torch::kFloat64), as_it_is)) return;
  throw Error(ErrorKind::kInvalidArgument,
              manta::str("padding of column '", column, "' with ", padding.value, ", which ",
                         dtype_name(dtype), " cannot hold: choose another value or dtype"));
}

}  // namespace

torch::Tensor to_tensor(const TensorColumn& column, torch::Dtype dtype, Inexact inexact) {
  known_type(dtype, column.name);
  std::vector<int64_t> shape = {column.rows};
  shape.insert(shape.end(), column.shape.begin(), column.shape.end());
  auto result = torch::empty(shape, dtype);
  copy_rows(column, static_cast<char*>(result.mutable_data_ptr()), column.width(), dtype, inexact);
  return result;
}

void copy_into(torch::Tensor& matrix, int64_t place, const TensorColumn& column, Inexact inexact) {
  auto* at = static_cast<char*>(matrix.mutable_data_ptr()) +
             place * static_cast<int64_t>(matrix.element_size());
  copy_rows(column, at, matrix.size(1), matrix.scalar_type(), inexact);
}

torch::Tensor to_padded_tensor(const RaggedColumn& column, const TorchPadding& padding,
                               torch::Dtype dtype, Inexact inexact) {
  auto values = to_tensor(column.elements, dtype, inexact);
  require_exact(padding, dtype, column.elements.name);
  auto rows = static_cast<int64_t>(column.offsets.size()) - 1;
  int64_t length = padded_length(column, padding);
  std::vector<int64_t> shape = {rows, length};
  shape.insert(shape.end(), column.elements.shape.begin(), column.elements.shape.end());
  auto result = torch::full(shape, padding.value, dtype);
  auto row_bytes = static_cast<size_t>(column.elements.width()) * c10::elementSize(dtype);
  auto* to = static_cast<char*>(result.mutable_data_ptr());
  const auto* from = static_cast<const char*>(values.const_data_ptr());
  for (int64_t row = 0; row < rows; ++row) {
    auto begin = static_cast<size_t>(column.offsets[static_cast<size_t>(row)]);
    auto end = static_cast<size_t>(column.offsets[static_cast<size_t>(row) + 1]);
    if (begin == end || row_bytes == 0) continue;
    std::memcpy(to + static_cast<size_t>(row * length) * row_bytes, from + begin * row_bytes,
                (end - begin) * row_bytes);
  }
  return result;
}

}  // namespace manta::detail
