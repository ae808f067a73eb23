#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "manta/base/json_input_internal.h"

namespace arrow {
class DataType;
}

namespace manta::data {

/// What the beginning of a .npy file says of the array in it.
struct NpyHeader {
  std::shared_ptr<arrow::DataType> type;  ///< Of its elements.
  int64_t element_bytes = 0;              ///< In the file; a boolean takes one there.
  std::vector<int64_t> shape;             ///< At least one dimension.
  int64_t data_offset = 0;                ///< Where the elements begin.

  int64_t rows() const { return shape[0]; }
  int64_t row_elements() const;
  int64_t row_bytes() const { return row_elements() * element_bytes; }
  /// Of a row: its elements' type, in as many fixed-size lists as there are further dimensions.
  std::shared_ptr<arrow::DataType> row_type() const;
};

/// So many bytes from the beginning of a file hold any header that is taken.
inline constexpr int64_t kMostNpyHeaderBytes = 16 << 10;

/// `beginning`: the first bytes of a file of `size` bytes, kMostNpyHeaderBytes of them or all.
/// Takes bytes from anywhere. Throws Error(kCorrupt) for what is no .npy file, or one that does not
/// have as many bytes as its header says; Error(kInvalidArgument) for arrays that cannot be read:
/// of other than little-endian numbers and booleans, in Fortran order, without dimensions.
NpyHeader parse_npy_header(std::string_view beginning, int64_t size);
/// The part of that which does not look at a text.
void check_npy_size(const NpyHeader& header, int64_t size);
/// In the JSON of a plan, with the same checks.
Json npy_to_json(const NpyHeader& header);
NpyHeader npy_from_json(const JsonFields& fields, int64_t size);
/// The header of a file, as numpy writes it.
std::string npy_header(const arrow::DataType& type, const std::vector<int64_t>& shape);

}  // namespace manta::data
