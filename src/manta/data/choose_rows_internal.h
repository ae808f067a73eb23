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

/// Of each row the value that it has in one of several columns of one type, whatever that is: by
/// Arrow's kernels, and row by row for types that these do not know (views, small decimals). A
/// constant among the columns, which have `rows` rows, has its value in every row.
namespace manta::data {

/// In row i the value of `values[choices[i]]`; null where there is no choice.
arrow::Datum choose_rows(const arrow::Int64Array& choices, const std::vector<arrow::Datum>& values);
/// That of `a` where the condition is true, of `b` where it is false; null where it is null.
arrow::Datum if_else_rows(const arrow::Datum& condition, const arrow::Datum& a,
                          const arrow::Datum& b, int64_t rows);
/// The first that is not null.
arrow::Datum first_valid_rows(const std::vector<arrow::Datum>& values, int64_t rows);

}  // namespace manta::data
