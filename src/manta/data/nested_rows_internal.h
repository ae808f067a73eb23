#pragma once

#include <memory>

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace manta::data {

/// Each value of a nested column (list, struct, map) as one run of bytes, for engines that move
/// rows without looking into them.
std::shared_ptr<arrow::Array> to_row_bytes(const arrow::Array& column);
/// Converts back. `type` has no encodings at any depth: see `written_out_type`.
std::shared_ptr<arrow::Array> from_row_bytes(const arrow::Array& bytes,
                                             const std::shared_ptr<arrow::DataType>& type);

/// The type without encodings at any depth: dictionaries and run ends as their values, extensions
/// as their storage, views as large_utf8 and large_binary. Null for unions and list views.
std::shared_ptr<arrow::DataType> written_out_type(const std::shared_ptr<arrow::DataType>& type);
/// Converts an array of a `written_out_type` back to its original type, at any depth.
std::shared_ptr<arrow::Array> encode_again(const std::shared_ptr<arrow::Array>& column,
                                           const std::shared_ptr<arrow::DataType>& type);

}  // namespace manta::data
