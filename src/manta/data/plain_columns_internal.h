#pragma once

#include <memory>

namespace arrow {
class Array;
class DataType;
class RecordBatch;
}  // namespace arrow

namespace manta::data {

/// The same values without encodings around them: a dictionary's or run-end encoded values written
/// out, an extension type as what it is stored as. What is inside of lists and structs stays.
std::shared_ptr<arrow::Array> plain_column(std::shared_ptr<arrow::Array> column);

/// The same rows without values that lie outside of them, at any depth, since a block in shared
/// memory carries its own only: dictionaries are written out, string_view and binary_view are
/// large_utf8 and large_binary; lists, structs, maps and unions of them are those of what they
/// stand for. Throws Error(kInvalidArgument) that names the column and its type if that is not
/// possible.
std::shared_ptr<arrow::RecordBatch> without_shared_values(
    const std::shared_ptr<arrow::RecordBatch>& batch);

/// The same type where lists, structs and maps of it allow nulls at every level, except in the keys
/// of maps, which never do. Files of the same data may differ in that.
std::shared_ptr<arrow::DataType> with_nulls_allowed(const std::shared_ptr<arrow::DataType>& type);
/// The same columns as such types.
std::shared_ptr<arrow::RecordBatch> with_nulls_allowed(const arrow::RecordBatch& batch);

}  // namespace manta::data
