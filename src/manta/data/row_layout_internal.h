#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "manta/base/error_internal.h"

namespace arrow {
class Array;
class Buffer;
class DataType;
}  // namespace arrow

namespace manta::data {

class Codebook;

/// A text in a row: its bytes, if they are few, or where they are.
struct TextSlot {
  static constexpr int64_t kInPlace = 8;
  static TextSlot of(std::string_view text);
  int64_t length;
  union {
    char bytes[kInPlace];
    const char* pointer;
  };
  const char* data() const { return length <= kInPlace ? bytes : pointer; }
};
static_assert(sizeof(TextSlot) == 16);

/// Calls `call` with a value of the type that has so many bytes: 1, 2, 4, 8 or 16.
template <class Call>
void with_width(int64_t width, Call call) {
  switch (width) {
    case 1:
      return call(uint8_t{});
    case 2:
      return call(uint16_t{});
    case 4:
      return call(uint32_t{});
    case 8:
      return call(uint64_t{});
    default:
      MANTA_CHECK(width == 16, "a value of another width");
      return call(std::array<uint64_t, 2>{});
  }
}

/// How rows lie in memory, the values of each beside each other. Whoever takes rows in another
/// order then reads a few lines of memory for each, not one for each of its columns.
class RowLayout {
 public:
  static constexpr int64_t kLine = 64;  ///< Bytes that the processor reads at once.
  /// Rows are written and read in blocks that stay in the processor's cache from one column to the
  /// next.
  static constexpr int kBitsOfBlock = 10;
  static constexpr int64_t kBlockRows = 1 << kBitsOfBlock;

  /// Where a column is in a row.
  struct Slot {
    std::shared_ptr<arrow::DataType> type;
    bool is_text = false;
    int64_t at = 0, width = 0;
    int64_t null_byte = 0;  ///< Not if it is coded: null has a code.
    uint8_t null_bit = 0;
    bool has_nulls = false;  ///< In what was written so far.
    /// If the row has a code of this one, of `width` bytes, instead of the value.
    const Codebook* book = nullptr;
  };
  /// How a column is to be coded.
  struct Coding {
    const Codebook* book = nullptr;  ///< Null: it is not.
    int64_t width = 0;               ///< Of a code: 1 or 2.
  };
  /// Values of a column; or, for a coded slot, indices (int32) into codes of its book.
  struct Column {
    std::shared_ptr<arrow::Array> values;
    const std::vector<uint16_t>* codes = nullptr;
  };

  /// Of texts and bytes, and of types whose values `with_width` knows. `codings`: of each of them,
  /// or none.
  explicit RowLayout(const std::vector<std::shared_ptr<arrow::DataType>>& types,
                     const std::vector<Coding>& codings = {});

  int64_t row_bytes() const { return row_bytes_; }
  const std::vector<Slot>& slots() const { return slots_; }
  /// A row of nulls.
  const uint8_t* no_row() const { return no_row_.data(); }

  /// Writes the rows [begin, end) of these columns, one after the other. Sets `points[i]` if they
  /// point into column i, which must stay.
  void write(const std::vector<Column>& columns, int64_t begin, int64_t end, uint8_t* to,
             std::vector<bool>& points);
  /// The bytes of a row's texts that are not coded.
  int64_t text_bytes(const uint8_t* row) const;
  /// The bytes of all its texts.
  int64_t all_text_bytes(const uint8_t* row) const;
  bool has_texts() const { return !texts_at_.empty(); }

 private:
  bool write_column(Slot& slot, const Column& column, int64_t begin, int64_t end,
                    uint8_t* to) const;

  std::vector<Slot> slots_;
  std::vector<int64_t> texts_at_;  ///< Where texts are in a row that are not coded.
  int64_t row_bytes_ = 0, nulls_at_ = 0;
  std::vector<uint8_t> no_row_;
};

/// A column that is made of rows, whatever their order and layout.
class GatheredColumn {
 public:
  /// `type`: that of the slots, or another with values of the same width; of texts with any
  /// offsets.
  GatheredColumn(const RowLayout::Slot& slot, std::shared_ptr<arrow::DataType> type, int64_t rows,
                 bool may_have_nulls);
  /// The rows [begin, end), which are at `rows` and have this slot.
  void add(const RowLayout::Slot& slot, const uint8_t* const* rows, int64_t begin, int64_t end);
  /// Throws Error(kResources) if its texts are more than the type can hold.
  std::shared_ptr<arrow::Array> finish();

 private:
  const bool is_text_;
  const std::shared_ptr<arrow::DataType> type_;
  const int64_t length_;
  std::shared_ptr<arrow::Buffer> valid_, values_;  ///< Of texts TextSlots.
  int64_t nulls_ = 0;
};

/// A column of texts, or bytes, of a type with any offsets. `valid` may be null. Throws
/// Error(kResources) if they are more than the type can hold.
std::shared_ptr<arrow::Array> text_column(const std::shared_ptr<arrow::DataType>& type,
                                          std::span<const TextSlot> texts,
                                          std::shared_ptr<arrow::Buffer> valid, int64_t nulls);

}  // namespace manta::data
