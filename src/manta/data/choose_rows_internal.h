#pragma once

#include <arrow/datum.h>

#include <cstdint>
#include <vector>

namespace arrow {
template <class Type>
class NumericArray;
class Int64Type;
using Int64Array = NumericArray<Int64Type>;
}  // namespace arrow

/// Choose, for each row, its value in one of several columns of the same type, whatever that type
/// is: with Arrow's kernels, or row by row for types that these do not know (views, small
/// decimals). The columns have `rows` rows; a constant among them has its value in every row.
namespace manta::data {

/// Row i gets the value of `values[choices[i]]`; null where the choice is null.
arrow::Datum choose_rows(const arrow::Int64Array& choices, const std::vector<arrow::Datum>& values);
/// The value of `a` where the condition is true, of `b` where it is false; null where the condition
/// is null.
arrow::Datum if_else_rows(const arrow::Datum& condition, const arrow::Datum& a,
                          const arrow::Datum& b, int64_t rows);
/// The first value that is not null.
arrow::Datum first_valid_rows(const std::vector<arrow::Datum>& values, int64_t rows);

}  // namespace manta::data
