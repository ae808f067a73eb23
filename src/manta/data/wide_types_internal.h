#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/data/duckdb_internal.h"

namespace arrow {
class Array;
class DataType;
class Schema;
}  // namespace arrow

/// How columns go through DuckDB. It is given integers of 8 to 128 bits, float64 and bytes only,
/// and never a type that it would interpret, so that nothing is rounded, normalised or converted on
/// the way. An array in one of these forms is a *lane*: Arrow's integers, float64, fixed-size
/// binary of 16 bytes, and binary or large_binary.
namespace manta::data {

/// The lane of an array in one of the forms above.
duck::TypeId lane_of(const arrow::DataType& type);

/// Values that only travel: what comes back is the same, bit for bit, of the same type. Integers,
/// times, floats and decimals by their bits; text and binary by their bytes; nested values in a row
/// format of our own. Dictionary-encoded, run-end encoded and extension values travel as what they
/// stand for, and are encoded again at the end.
struct Payload {
  /// Throws Error(kInvalidArgument) that names the type if there is no way: unions, list views.
  static std::shared_ptr<arrow::DataType> lane_type(const arrow::DataType& type);
  static std::shared_ptr<arrow::Array> encode(const std::shared_ptr<arrow::Array>& column);
  static std::shared_ptr<arrow::Array> decode(const std::shared_ptr<arrow::Array>& lane,
                                              const std::shared_ptr<arrow::DataType>& type);
};

/// Values that are compared: equal lanes are equal values, and the order of lanes is that of
/// values. Floats become integers: -0.0 is 0.0, all NaN are one value above all others.
struct Key {
  /// Nothing if values of this type have no order: nested types, unions, intervals of several
  /// fields.
  static std::shared_ptr<arrow::DataType> lane_type(const arrow::DataType& type);
  static std::shared_ptr<arrow::Array> encode(const std::shared_ptr<arrow::Array>& column);
  static std::shared_ptr<arrow::Array> decode(const std::shared_ptr<arrow::Array>& lane,
                                              const std::shared_ptr<arrow::DataType>& type);
  /// Whether it is a floating-point type, possibly encoded.
  static bool is_floating(const arrow::DataType& type);
};
/// The key of NaN.
inline constexpr int64_t kNanKey = INT64_MAX;

/// What dictionaries, run ends and extensions stand for.
std::shared_ptr<arrow::DataType> plain_type(const std::shared_ptr<arrow::DataType>& type);

}  // namespace manta::data
