#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "manta/data/row.h"

namespace arrow {
class Array;
class RecordBatch;
}  // namespace arrow

namespace manta::data {

/// What a function of rows did wrong, as it follows the function's name: "threw ... at row 3".
class RowFunctionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The value of a column in a row; of a dictionary, what it encodes.
RowValue read_cell(const arrow::Array& column, int64_t row);

/// The rows as a batch, with the columns of the first one, by the rules of Row::set. Rows that keep
/// columns keep those of `from`. Throws RowFunctionError, which names a row by the one of `from`
/// that it came of, if they do not have the same columns, or values that do not go together.
std::shared_ptr<arrow::RecordBatch> batch_of_rows(
    const std::shared_ptr<const arrow::RecordBatch>& from, const std::vector<Row>& rows);

}  // namespace manta::data
