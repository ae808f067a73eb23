#pragma once

#include <arrow/datum.h>

#include <optional>

#include "manta/data/expression_internal.h"

namespace manta::data {

/// What the values of a type say. Values that say the same can be compared, whatever their types.
enum class Meaning {
  kNone,       ///< Nothing that can be compared: lists, structs, intervals, unions.
  kNull,       ///< Nothing at all: whatever is compared with it is null.
  kNumber,     ///< Integers, floating numbers, decimals.
  kLocalTime,  ///< Dates, and timestamps without a time zone.
  kInstant,    ///< Timestamps with a time zone: which one does not matter.
  kTimeOfDay,
  kDuration,
  kBytes,  ///< Texts and binary values, in the order of their bytes.
  kBool,
};
Meaning meaning_of(const arrow::DataType& type);

/// Compares exactly: as the numbers, times and texts that the values stand for, without rounding or
/// wrapping either side. Columns have no encodings (see `plain_column`); null rows give null.
/// Nothing if values of these types cannot be compared.
///
/// A constant beside a column is replaced by the nearest value of the column's own type, together
/// with the comparison that then says the same (`i32 < 2.5` is `i32 <= 2`), so that Arrow's kernel
/// runs on the column as it is. Two columns are widened where a type holds the values of both, and
/// compared row by row where none does.
std::optional<arrow::Datum> compare(ExpressionOp op, const arrow::Datum& a, const arrow::Datum& b);

/// Whether each value equals one of the constants, by the same rules; null where it is null.
/// Nothing if values of these types cannot be compared.
std::optional<arrow::Datum> equals_one_of(
    const arrow::Datum& value, const std::vector<std::shared_ptr<arrow::Scalar>>& constants);

/// A column of numbers, times or durations as what Arrow's kernels compare: a time's or a decimal's
/// integers, half floats as floats.
std::shared_ptr<arrow::Array> stored_numbers(const std::shared_ptr<arrow::Array>& column);

}  // namespace manta::data
