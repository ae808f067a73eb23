#pragma once

#include <cstdint>
#include <optional>

namespace arrow {
class DataType;
class RecordBatch;
}  // namespace arrow

namespace manta::data {

/// About how many bytes the rows [first, end) take. The same rows give the same number in whatever
/// batch they are. Of values in a dictionary only the indices count.
int64_t bytes_of_rows(const arrow::RecordBatch& batch, int64_t first, int64_t end);

/// What each value counts there, but for its bytes if it is a text; nothing for types whose values
/// differ in more than that.
std::optional<int64_t> bytes_beside_text(const arrow::DataType& type);

/// About how many bytes a batch keeps in memory: of a column that it shares with other rows, its
/// part; dictionaries as a whole. About 10 ns for a column, without a look at the values, and some
/// microseconds for one with a dictionary.
int64_t bytes_of_batch(const arrow::RecordBatch& batch);

}  // namespace manta::data
