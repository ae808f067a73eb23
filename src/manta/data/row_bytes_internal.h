#pragma once

#include <cstdint>
#include <optional>

namespace arrow {
class DataType;
class RecordBatch;
class Schema;
}  // namespace arrow

namespace manta::data {

/// About how many bytes the rows [first, end) take. The same rows give the same number in whatever
/// batch they are. Of values in a dictionary only the indices count.
int64_t bytes_of_rows(const arrow::RecordBatch& batch, int64_t first, int64_t end);

/// What each value counts there, but for its bytes if it is a text; nothing for types whose values
/// differ in more than that.
std::optional<int64_t> bytes_beside_text(const arrow::DataType& type);

/// About how many bytes a value takes, by its type alone: that of a vector is known, and a text or
/// a list counts 32.
int64_t guess_bytes_of(const arrow::DataType& type);
/// About how many bytes a row of these columns takes, by the same.
int64_t guess_bytes_of_row(const arrow::Schema& schema);

/// So many rows of these columns are to be made at a time of rows of those: at least one, and as
/// many as one likes unless they are vectors, or the like, that take 4 KiB or more, and twice as
/// much as what they are made of; then 32 MiB.
int64_t rows_at_a_time(const arrow::Schema& made, const arrow::Schema& of);

/// About how many bytes a batch keeps in memory: of a column that it shares with other rows, its
/// part; dictionaries as a whole. About 10 ns for a column, without a look at the values, and some
/// microseconds for one with a dictionary.
int64_t bytes_of_batch(const arrow::RecordBatch& batch);

}  // namespace manta::data
