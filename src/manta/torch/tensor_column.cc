#include <arrow/array.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>

#include <limits>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/torch/exact_cast_internal.h"
#include "manta/torch/tensor_column_internal.h"

namespace manta::detail {
namespace {

[[noreturn]] void refuse(const ColumnCopy& copy, int64_t row, const std::string& value) {
  std::string advice;
  torch::Dtype own = own_dtype(*copy.array.type(), copy.name);
  if (own != copy.dtype) {
    advice = manta::str("read the column as ", dtype_name(own), ", its own type, ");
  }
  throw Error(
      ErrorKind::kInvalidArgument,
      manta::str("column '", copy.name, "' of type ", copy.array.type()->ToString(), ": row ",
                 copy.first_row + row / copy.row_width, " of the batch holds ", value, ", which ",
                 dtype_name(copy.dtype), " cannot hold: ", advice, advice.empty() ? "" : "or ",
                 "change it in the data set, or ask for the nearest value by giving "
                 "Inexact::kAllowed to column() or columns()"));
}

[[noreturn]] void refuse_null(const ColumnCopy& copy, int64_t row) {
  throw Error(
      ErrorKind::kInvalidArgument,
      manta::str("column '", copy.name, "' has a null in row ",
                 copy.first_row + row / copy.row_width, " of the batch, which ",
                 dtype_name(copy.dtype),
                 " cannot hold: use drop_na(), or a floating-point dtype, where it is NaN"));
}

template <class T>
std::string printed(T value) {
  std::ostringstream out;
  out.precision(std::numeric_limits<T>::max_digits10);
  out << +value;  // a byte is a number, too
  return out.str();
}

// Goes through the rows one by one, for nulls and for what looked doubtful.
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

std::optional<int64_t> vector_width(const arrow::DataType& type) {
  if (type.id() != arrow::Type::FIXED_SIZE_LIST) return std::nullopt;
  return static_cast<const arrow::FixedSizeListType&>(type).list_size();
}

torch::Dtype own_dtype(const arrow::DataType& type, const std::string& column) {
  if (vector_width(type)) {
    return own_dtype(*static_cast<const arrow::FixedSizeListType&>(type).value_type(), column);
  }
  torch::Dtype own = torch::kInt64;
  bool known = with_stored_type(type.id(), [&]<class T>(T*) {
    if constexpr (std::is_same_v<T, uint16_t>) {
      own = torch::kInt32;
    } else if constexpr (!std::is_same_v<T, uint32_t> && !std::is_same_v<T, uint64_t>) {
      if (!arrow::is_temporal(type.id())) own = c10::CppTypeToScalarType<T>::value;
    }
  });
  if (known) return own;
  std::string advice = "turn it into numbers first, e.g. with map_batches";
  if (arrow::is_decimal(type.id())) advice = "cast it in the data set, e.g. cast(\"float64\")";
  throw Error(ErrorKind::kInvalidArgument,
              manta::str("column '", column, "' is of type ", type.ToString(),
                         ", which is no tensor's: ", advice));
}

namespace {

// Row by row, unless nothing else lies between the rows.
void copy_vectors(const ColumnCopy& copy, int64_t width) {
  const auto& vectors = static_cast<const arrow::FixedSizeListArray&>(copy.array);
  for (int64_t row = 0; vectors.null_count() > 0 && row < copy.rows; ++row) {
    if (vectors.IsNull(copy.offset + row)) refuse_null(copy, row);
  }
  const auto& elements = *vectors.values();
  int64_t first = (vectors.offset() + copy.offset) * width;
  auto size = static_cast<int64_t>(c10::elementSize(copy.dtype));
  auto copy_rows = [&](int64_t row, int64_t rows) {
    copy_column({.name = copy.name,
                 .array = elements,
                 .offset = first + row * width,
                 .rows = rows * width,
                 .first_row = copy.first_row + row,
                 .to = static_cast<char*>(copy.to) + row * copy.stride * size,
                 .stride = 1,
                 .dtype = copy.dtype,
                 .inexact = copy.inexact,
                 .row_width = width});
  };
  if (copy.stride == width) return copy_rows(0, copy.rows);
  for (int64_t row = 0; row < copy.rows; ++row) copy_rows(row, 1);
}

}  // namespace

void copy_column(const ColumnCopy& copy) {
  own_dtype(*copy.array.type(), copy.name);
  if (auto width = vector_width(*copy.array.type())) {
    if (copy.rows > 0 && *width > 0) copy_vectors(copy, *width);
    return;
  }
  const TensorType* type = find_type(copy.dtype);
  if (!type) {
    std::string names;
    for (const TensorType& known : kTensorTypes) names += manta::str(" ", known.name);
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("column '", copy.name, "' cannot be made a tensor of type ",
                           c10::toString(copy.dtype), "; use one of:", names));
  }
  type->copy(copy);
}

}  // namespace manta::detail
