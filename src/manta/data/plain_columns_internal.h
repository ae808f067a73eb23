#pragma once

#include <memory>

namespace arrow {
class Array;
class DataType;
class RecordBatch;
}  // namespace arrow

namespace manta::data {

/// The same values without encodings around them: dictionaries and run-end encodings are written
/// out, extension types become their storage types. The content of lists and structs stays as it
/// is.
std::shared_ptr<arrow::Array> plain_column(std::shared_ptr<arrow::Array> column);

/// The same rows without references to values outside them, at any depth, since a block in shared
/// memory carries only its own values. Dictionaries are written out, string_view and binary_view
/// become large_utf8 and large_binary; lists, structs, maps and unions that contain such types
/// contain the replacements. Throws Error(kInvalidArgument) that names the column and its type if
/// that is not possible.
std::shared_ptr<arrow::RecordBatch> without_shared_values(
    const std::shared_ptr<arrow::RecordBatch>& batch);

/// The same type, but its lists, structs and maps allow nulls at every level, except in the keys of
/// maps, which never do. Files of the same data may differ in that.
std::shared_ptr<arrow::DataType> with_nulls_allowed(const std::shared_ptr<arrow::DataType>& type);
/// The same columns as such types.
std::shared_ptr<arrow::RecordBatch> with_nulls_allowed(const arrow::RecordBatch& batch);

}  // namespace manta::data
