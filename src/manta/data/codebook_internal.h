#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "manta/data/row_layout_internal.h"

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace manta::data {

/// The distinct values of a column of rows that are kept. Dictionary-encoded batches, each with a
/// dictionary of its own, become codes of this one: a row then has one or two bytes for a value.
class Codebook {
 public:
  /// The most codes that there can be, null's included.
  static constexpr size_t kMost = size_t{1} << 16;
  static constexpr uint16_t kNull = 0;  ///< The code of null.

  /// `type`: of the values, as RowLayout takes them.
  explicit Codebook(const arrow::DataType& type);

  /// The codes of a dictionary's values, in their order; null if there were too many, after which
  /// it takes no more. Batches of a row group share their dictionary: that of the last call is
  /// held, and costs nothing again.
  const std::vector<uint16_t>* codes_of(const std::shared_ptr<arrow::Array>& dictionary);

  /// Lets go of what only `codes_of` needs, which must not be called any more.
  void close();

  size_t size() const { return count_; }  ///< Codes that mean something.
  /// The values of the codes, one after the other: of texts TextSlots. Whoever adds values may move
  /// them.
  const uint8_t* values() const { return values_.data(); }
  int64_t width() const { return width_; }  ///< Of a value in bytes.
  int64_t most_text_bytes() const { return most_text_bytes_; }
  int64_t bytes() const;  ///< The memory of the book itself.

 private:
  uint16_t code_of(const uint8_t* value, std::string_view text);
  bool is_equal(uint16_t code, const uint8_t* value, std::string_view text) const;
  void grow();
  bool is_last(const arrow::Array& dictionary) const;

  const int64_t width_;
  const bool is_text_;
  std::vector<uint8_t> values_;
  size_t count_ = 1;
  std::deque<std::string> texts_;  ///< Those that TextSlots point to.
  int64_t text_bytes_ = 0, most_text_bytes_ = 0;
  std::vector<uint64_t> hashes_;        ///< By code.
  std::vector<uint16_t> table_;         ///< By hash, the next free place: a code, or kNull.
  std::shared_ptr<arrow::Array> last_;  ///< Its codes are in `codes_`.
  std::vector<uint16_t> codes_;
};

}  // namespace manta::data
