#include <arrow/api.h>
#include <arrow/extension_type.h>
#include <arrow/util/bitmap_ops.h>
#include <arrow/util/float16.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/data/nested_rows_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/wide_types_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

using arrow::Type;
using arrow::util::Float16;
using ArrayPtr = std::shared_ptr<arrow::Array>;
using TypePtr = std::shared_ptr<arrow::DataType>;

constexpr const char* kLanes = "columns of a wide operation";

// The same bits under another type of the same width.
ArrayPtr seen_as(const ArrayPtr& column, const TypePtr& type) {
  if (column->type_id() == type->id()) return column;
  auto data = column->data()->Copy();
  data->type = type;
  return arrow::MakeArray(data);
}

// Which rows are not null, from bit 0 on; null if all are.
std::shared_ptr<arrow::Buffer> valid_rows(const arrow::Array& column) {
  if (column.null_count() == 0) return nullptr;
  if (column.offset() == 0) return column.null_bitmap();
  return check(arrow::internal::CopyBitmap(arrow::default_memory_pool(), column.null_bitmap_data(),
                                           column.offset(), column.length()),
               kLanes);
}

// Integers of the width of a type that is not text, nested or a bool; null if it is of another
// sort.
TypePtr integers_for(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::INT8:
      return arrow::int8();
    case Type::INT16:
      return arrow::int16();
    case Type::UINT8:
      return arrow::uint8();
    case Type::UINT16:
    case Type::HALF_FLOAT:
      return arrow::uint16();
    case Type::UINT32:
    case Type::FLOAT:
      return arrow::uint32();
    case Type::UINT64:
    case Type::DOUBLE:
      return arrow::uint64();
    case Type::INT32:
    case Type::DATE32:
    case Type::TIME32:
    case Type::INTERVAL_MONTHS:
    case Type::DECIMAL32:
      return arrow::int32();
    case Type::INT64:
    case Type::DATE64:
    case Type::TIME64:
    case Type::TIMESTAMP:
    case Type::DURATION:
    case Type::INTERVAL_DAY_TIME:
    case Type::DECIMAL64:
      return arrow::int64();
    case Type::DECIMAL128:
    case Type::INTERVAL_MONTH_DAY_NANO:
      return arrow::fixed_size_binary(16);
    default:
      return nullptr;
  }
}

ArrayPtr to_bytes(const arrow::BooleanArray& column) {
  arrow::UInt8Builder builder;
  check(builder.Reserve(column.length()), kLanes);
  for (int64_t i = 0; i < column.length(); ++i) {
    if (column.IsNull(i)) {
      builder.UnsafeAppendNull();
    } else {
      builder.UnsafeAppend(column.Value(i) ? 1 : 0);
    }
  }
  return check(builder.Finish(), kLanes);
}

ArrayPtr to_bits(const arrow::UInt8Array& lane) {
  arrow::BooleanBuilder builder;
  check(builder.Reserve(lane.length()), kLanes);
  for (int64_t i = 0; i < lane.length(); ++i) {
    if (lane.IsNull(i)) {
      builder.UnsafeAppendNull();
    } else {
      builder.UnsafeAppend(lane.Value(i) != 0);
    }
  }
  return check(builder.Finish(), kLanes);
}

template <class Column>
ArrayPtr copied_bytes(const Column& column) {
  arrow::LargeBinaryBuilder builder;
  for (int64_t i = 0; i < column.length(); ++i) {
    check(column.IsNull(i) ? builder.AppendNull() : builder.Append(column.GetView(i)), kLanes);
  }
  return check(builder.Finish(), kLanes);
}

// Text and bytes of any kind as binary or large_binary.
ArrayPtr to_binary(const ArrayPtr& column) {
  switch (column->type_id()) {
    case Type::STRING:
    case Type::BINARY:
      return seen_as(column, arrow::binary());
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return seen_as(column, arrow::large_binary());
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      return copied_bytes(static_cast<const arrow::BinaryViewArray&>(*column));
    default:
      return copied_bytes(static_cast<const arrow::FixedSizeBinaryArray&>(*column));
  }
}

// A lane of large_binary as text or bytes of any kind without an encoding.
ArrayPtr from_binary(const ArrayPtr& lane, const TypePtr& type) {
  auto& bytes = static_cast<const arrow::LargeBinaryArray&>(*lane);
  switch (type->id()) {
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return seen_as(lane, type);
    case Type::STRING:
    case Type::BINARY: {
      int64_t length = bytes.length(), first = bytes.value_offset(0);
      int64_t last = bytes.value_offset(length);
      if (last - first > INT32_MAX) {
        throw Error(ErrorKind::kResources,
                    str(last - first, " bytes of text in ", length, " rows are more than the type ",
                        type->ToString(), " can hold in a block; cast the column to large_",
                        type->ToString()));
      }
      auto offsets = check(arrow::AllocateBuffer((length + 1) * 4), kLanes);
      auto* to = reinterpret_cast<int32_t*>(offsets->mutable_data());
      for (int64_t i = 0; i <= length; ++i) {
        to[i] = static_cast<int32_t>(bytes.value_offset(i) - first);
      }
      auto values = arrow::SliceBuffer(bytes.value_data(), first, last - first);
      return arrow::MakeArray(
          arrow::ArrayData::Make(type, length, {valid_rows(bytes), std::move(offsets), values}));
    }
    default: {
      arrow::FixedSizeBinaryBuilder builder(arrow::fixed_size_binary(type->byte_width()));
      for (int64_t i = 0; i < bytes.length(); ++i) {
        check(bytes.IsNull(i) ? builder.AppendNull() : builder.Append(bytes.GetView(i).data()),
              kLanes);
      }
      return seen_as(check(builder.Finish(), kLanes), type);
    }
  }
}

[[noreturn]] void throw_no_lane(const arrow::DataType& type) {
  throw Error(ErrorKind::kInvalidArgument,
              str("columns of type ", type.ToString(),
                  " cannot pass through an operation on all rows; drop the column before it, or "
                  "change its type in a map_batches"));
}

// ---- Keys of floats: integers in the order of the numbers.

int64_t key_of(double value) {
  if (std::isnan(value)) return kNanKey;
  if (value == 0) return 0;
  auto bits = std::bit_cast<int64_t>(value);
  return bits < 0 ? INT64_MIN - bits : bits;
}

double number_of(int64_t key) {
  if (key == kNanKey) return std::nan("");
  return std::bit_cast<double>(key < 0 ? INT64_MIN - key : key);
}

template <class ArrowType, class Number>
ArrayPtr float_keys_of(const arrow::Array& column, Number number) {
  const auto* from = static_cast<const arrow::NumericArray<ArrowType>&>(column).raw_values();
  auto buffer = check(arrow::AllocateBuffer(column.length() * 8), kLanes);
  auto* keys = reinterpret_cast<int64_t*>(buffer->mutable_data());
  for (int64_t i = 0; i < column.length(); ++i) keys[i] = key_of(number(from[i]));
  return std::make_shared<arrow::Int64Array>(column.length(), std::move(buffer), valid_rows(column),
                                             column.null_count());
}

ArrayPtr float_keys(const arrow::Array& column) {
  switch (column.type_id()) {
    case Type::HALF_FLOAT:
      return float_keys_of<arrow::HalfFloatType>(
          column, [](uint16_t bits) { return Float16::FromBits(bits).ToDouble(); });
    case Type::FLOAT:
      return float_keys_of<arrow::FloatType>(column,
                                             [](float x) { return static_cast<double>(x); });
    default:
      return float_keys_of<arrow::DoubleType>(column, [](double x) { return x; });
  }
}

template <class Builder, class Convert>
ArrayPtr floats_of(const arrow::Int64Array& keys, Convert convert) {
  Builder builder;
  check(builder.Reserve(keys.length()), kLanes);
  for (int64_t i = 0; i < keys.length(); ++i) {
    if (keys.IsNull(i)) {
      builder.UnsafeAppendNull();
    } else {
      builder.UnsafeAppend(convert(number_of(keys.Value(i))));
    }
  }
  return check(builder.Finish(), kLanes);
}

// Decimals of 256 bits: most significant byte first, the sign turned, so that bytes have the order
// of the numbers.
ArrayPtr turned(const arrow::Array& column, bool back) {
  auto& fixed = static_cast<const arrow::FixedSizeBinaryArray&>(column);
  arrow::LargeBinaryBuilder builder;
  for (int64_t i = 0; i < fixed.length(); ++i) {
    if (fixed.IsNull(i)) {
      check(builder.AppendNull(), kLanes);
      continue;
    }
    std::string bytes(fixed.GetView(i));
    if (back) bytes[0] = static_cast<char>(bytes[0] ^ 0x80);
    std::reverse(bytes.begin(), bytes.end());
    if (!back) bytes[0] = static_cast<char>(bytes[0] ^ 0x80);
    check(builder.Append(bytes), kLanes);
  }
  return check(builder.Finish(), kLanes);
}

}  // namespace

duck::TypeId lane_of(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::INT8:
      return duck::kInt8;
    case Type::INT16:
      return duck::kInt16;
    case Type::INT32:
      return duck::kInt32;
    case Type::INT64:
      return duck::kInt64;
    case Type::UINT8:
      return duck::kUInt8;
    case Type::UINT16:
      return duck::kUInt16;
    case Type::UINT32:
      return duck::kUInt32;
    case Type::UINT64:
      return duck::kUInt64;
    case Type::DOUBLE:
      return duck::kFloat64;
    case Type::FIXED_SIZE_BINARY:
      return duck::kInt128;
    default:
      return duck::kBlob;
  }
}

TypePtr plain_type(const TypePtr& type) {
  switch (type->id()) {
    case Type::DICTIONARY:
      return plain_type(static_cast<const arrow::DictionaryType&>(*type).value_type());
    case Type::RUN_END_ENCODED:
      return plain_type(static_cast<const arrow::RunEndEncodedType&>(*type).value_type());
    case Type::EXTENSION:
      return plain_type(static_cast<const arrow::ExtensionType&>(*type).storage_type());
    default:
      return type;
  }
}

TypePtr Payload::lane_type(const arrow::DataType& given) {
  auto type = plain_type(given.GetSharedPtr());
  if (!written_out_type(type)) throw_no_lane(given);
  if (type->id() == Type::NA || type->id() == Type::BOOL) return arrow::uint8();
  if (auto integers = integers_for(*type)) return integers;
  return arrow::large_binary();
}

ArrayPtr Payload::encode(const ArrayPtr& given) {
  auto column = plain_column(given);
  Type::type id = column->type_id();
  if (id == Type::NA)
    return check(arrow::MakeArrayOfNull(arrow::uint8(), column->length()), kLanes);
  if (id == Type::BOOL) return to_bytes(static_cast<const arrow::BooleanArray&>(*column));
  if (auto integers = integers_for(*column->type())) return seen_as(column, integers);
  if (arrow::is_nested(id)) return to_row_bytes(*column);
  return to_binary(column);
}

ArrayPtr Payload::decode(const ArrayPtr& lane, const TypePtr& type) {
  auto plain = plain_type(type);
  auto written = written_out_type(plain);
  ArrayPtr column;
  if (plain->id() == Type::NA) {
    column = std::make_shared<arrow::NullArray>(lane->length());
  } else if (plain->id() == Type::BOOL) {
    column = to_bits(static_cast<const arrow::UInt8Array&>(*lane));
  } else if (integers_for(*plain)) {
    column = seen_as(lane, plain);
  } else if (arrow::is_nested(plain->id())) {
    column = from_row_bytes(*lane, written);
  } else {
    column = from_binary(lane, written);
  }
  return type->Equals(*column->type()) ? column : encode_again(column, type);
}

bool Key::is_floating(const arrow::DataType& type) {
  return arrow::is_floating(plain_type(type.GetSharedPtr())->id());
}

TypePtr Key::lane_type(const arrow::DataType& given) {
  auto type = plain_type(given.GetSharedPtr());
  Type::type id = type->id();
  if (arrow::is_nested(id) || id == Type::INTERVAL_DAY_TIME ||
      id == Type::INTERVAL_MONTH_DAY_NANO) {
    return nullptr;
  }
  if (arrow::is_floating(id)) return arrow::int64();
  return Payload::lane_type(*type);
}

ArrayPtr Key::encode(const ArrayPtr& given) {
  auto column = plain_column(given);
  if (arrow::is_floating(column->type_id())) return float_keys(*column);
  if (column->type_id() == Type::DECIMAL256) return turned(*column, false);
  return Payload::encode(column);
}

ArrayPtr Key::decode(const ArrayPtr& lane, const TypePtr& type) {
  auto plain = plain_type(type);
  ArrayPtr column;
  switch (plain->id()) {
    case Type::HALF_FLOAT:
      column = floats_of<arrow::HalfFloatBuilder>(
          static_cast<const arrow::Int64Array&>(*lane),
          [](double value) { return Float16::FromDouble(value).bits(); });
      break;
    case Type::FLOAT:
      column =
          floats_of<arrow::FloatBuilder>(static_cast<const arrow::Int64Array&>(*lane),
                                         [](double value) { return static_cast<float>(value); });
      break;
    case Type::DOUBLE:
      column = floats_of<arrow::DoubleBuilder>(static_cast<const arrow::Int64Array&>(*lane),
                                               [](double value) { return value; });
      break;
    case Type::DECIMAL256: {
      auto fixed = from_binary(lane, arrow::fixed_size_binary(32));
      column = Payload::decode(turned(*fixed, true), plain);
      break;
    }
    default:
      return Payload::decode(lane, type);
  }
  return type->Equals(*column->type()) ? column : encode_again(column, type);
}

}  // namespace manta::data
