#pragma once

#include <arrow/datum.h>

#include <optional>

#include "manta/data/expression_internal.h"

namespace manta::data {

/// What the values of a type mean. Values with the same meaning can be compared, whatever their
/// types.
enum class Meaning {
  kNone,       ///< Nothing that can be compared: lists, structs, intervals, unions.
  kNull,       ///< Only nulls: every comparison with them is null.
  kNumber,     ///< Integers, floating numbers, decimals.
  kLocalTime,  ///< Dates, and timestamps without a time zone.
  kInstant,    ///< Timestamps with a time zone; the zone does not matter.
  kTimeOfDay,
  kDuration,
  kBytes,  ///< Texts and binary values, in the order of their bytes.
  kBool,
};
Meaning meaning_of(const arrow::DataType& type);

/// Compares exactly: as the numbers, times and texts that the values stand for, without rounding or
/// wrapping either side. Columns must have no encodings (see `plain_column`); null rows give null.
/// Returns nothing if values of these types cannot be compared.
///
/// To compare a column with a constant, it replaces the constant by the nearest value of the
/// column's type, and the comparison by an equivalent one (`i32 < 2.5` becomes `i32 <= 2`), so that
/// Arrow's kernel runs on the column as it is. It widens two columns to a type that holds the
/// values of both, or compares them row by row if there is none.
std::optional<arrow::Datum> compare(ExpressionOp op, const arrow::Datum& a, const arrow::Datum& b);

/// Whether each value equals one of the constants, by the same rules; null where the value is null.
/// Returns nothing if values of these types cannot be compared.
std::optional<arrow::Datum> equals_one_of(
    const arrow::Datum& value, const std::vector<std::shared_ptr<arrow::Scalar>>& constants);

/// A column of numbers, times or durations in the form that Arrow's kernels compare: times and
/// decimals as their integers, half floats as floats.
std::shared_ptr<arrow::Array> stored_numbers(const std::shared_ptr<arrow::Array>& column);

}  // namespace manta::data
