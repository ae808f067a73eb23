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

/// What the beginning of a .npy file says about the array in it.
struct NpyHeader {
  std::shared_ptr<arrow::DataType> type;  ///< The type of its elements.
  int64_t element_bytes = 0;              ///< The size of an element in the file; a boolean takes
                                          ///< one byte there.
  std::vector<int64_t> shape;             ///< At least one dimension.
  int64_t data_offset = 0;                ///< Where the elements begin.

  int64_t rows() const { return shape[0]; }
  int64_t row_elements() const;
  int64_t row_bytes() const { return row_elements() * element_bytes; }
  /// The type of a row: the elements' type, in as many fixed-size lists as there are further
  /// dimensions.
  std::shared_ptr<arrow::DataType> row_type() const;
};

/// The first bytes of a file, this many, hold every header that is accepted.
inline constexpr int64_t kMostNpyHeaderBytes = 16 << 10;

/// `beginning`: the first bytes of a file of `size` bytes, kMostNpyHeaderBytes of them or all. The
/// bytes may come from an untrusted source. Throws Error(kCorrupt) if it is not a .npy file, or
/// does not have as many bytes as its header says; Error(kInvalidArgument) for arrays that cannot
/// be read: anything but little-endian numbers and booleans, Fortran order, no dimensions.
NpyHeader parse_npy_header(std::string_view beginning, int64_t size);
/// The checks of parse_npy_header that need no text.
void check_npy_size(const NpyHeader& header, int64_t size);
/// Converts it to and from a plan's JSON, with the same checks.
Json npy_to_json(const NpyHeader& header);
NpyHeader npy_from_json(const JsonFields& fields, int64_t size);
/// The header of a file, as numpy writes it.
std::string npy_header(const arrow::DataType& type, const std::vector<int64_t>& shape);

}  // namespace manta::data
