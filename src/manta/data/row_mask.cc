#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_ops.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/data/gather_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/row_mask_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr const char* kFiltering = "filtering rows";

template <class T>
bool has_nan(const T* values, int64_t n) {
  bool found = false;
  for (int64_t i = 0; i < n; ++i) found |= values[i] != values[i];
  return found;
}

template <class ArrayType>
std::shared_ptr<arrow::Buffer> not_nan_bits(const arrow::Array& column) {
  auto* values = static_cast<const ArrayType&>(column).raw_values();
  int64_t rows = column.length();
  if (!has_nan(values, rows)) return nullptr;
  auto bits = check(arrow::AllocateEmptyBitmap(rows), kFiltering);
  uint8_t* out = bits->mutable_data();
  for (int64_t i = 0; i < rows; ++i) {
    out[i / 8] = static_cast<uint8_t>(out[i / 8] | (values[i] == values[i]) << (i % 8));
  }
  return bits;
}

// Whether a dictionary's indices tell which rows have a value, so that it need not be decoded.
bool has_own_nulls(const arrow::Array& column) {
  if (column.type_id() != arrow::Type::DICTIONARY) return false;
  const auto& values = *static_cast<const arrow::DictionaryArray&>(column).dictionary();
  return arrow::is_base_binary_like(values.type_id()) && values.null_count() == 0;
}

std::shared_ptr<arrow::Array> indices_of(const arrow::Array& column) {
  return static_cast<const arrow::DictionaryArray&>(column).indices();
}

}  // namespace

void RowMask::keep_bits(const uint8_t* bits, int64_t offset) {
  auto* pool = arrow::default_memory_pool();
  if (!bits_) {
    bits_ = check(arrow::internal::CopyBitmap(pool, bits, offset, rows_), kFiltering);
  } else {
    bits_ = check(
        arrow::internal::BitmapAnd(pool, bits_->data(), 0, bits, offset, rows_, /*out_offset=*/0),
        kFiltering);
  }
  kept_ = arrow::internal::CountSetBits(bits_->data(), 0, rows_);
}

void RowMask::keep_true(const arrow::Array& condition) {
  auto& flags = static_cast<const arrow::BooleanArray&>(condition);
  if (rows_ == 0) return;
  keep_bits(flags.values()->data(), flags.offset());
  if (flags.null_count() > 0) keep_bits(flags.null_bitmap_data(), flags.offset());
}

void RowMask::keep_valid(const std::shared_ptr<arrow::Array>& given) {
  if (rows_ == 0) return;
  auto column = has_own_nulls(*given) ? indices_of(*given) : plain_column(given);
  if (column->type_id() == arrow::Type::NA || arrow::is_union(column->type_id())) {
    // A union has no bits of its own: its children know.
    auto bits = check(arrow::AllocateEmptyBitmap(rows_), kFiltering);
    for (int64_t i = 0; i < rows_; ++i) {
      if (column->IsValid(i)) arrow::bit_util::SetBit(bits->mutable_data(), i);
    }
    return keep_bits(bits->data(), 0);
  }
  if (column->null_count() > 0) keep_bits(column->null_bitmap_data(), column->offset());
  std::shared_ptr<arrow::Buffer> bits;
  if (column->type_id() == arrow::Type::DOUBLE) bits = not_nan_bits<arrow::DoubleArray>(*column);
  if (column->type_id() == arrow::Type::FLOAT) bits = not_nan_bits<arrow::FloatArray>(*column);
  if (column->type_id() == arrow::Type::HALF_FLOAT) {
    auto wide = check(arrow::compute::Cast(*column, arrow::float32()), kFiltering);
    bits = not_nan_bits<arrow::FloatArray>(*wide);
  }
  if (bits) keep_bits(bits->data(), 0);
}

std::vector<uint32_t> RowMask::kept_rows() const {
  std::vector<uint32_t> kept(static_cast<size_t>(kept_));
  uint32_t* out = kept.data();
  const uint8_t* bits = bits_->data();
  for (int64_t row = 0; row < rows_; row += 64) {
    uint64_t word = 0;
    std::memcpy(&word, bits + row / 8,
                static_cast<size_t>(std::min<int64_t>(8, (rows_ - row + 7) / 8)));
    if (rows_ - row < 64) word &= (uint64_t{1} << (rows_ - row)) - 1;
    auto first = static_cast<uint32_t>(row);
    if (word == ~uint64_t{0}) {
      for (uint32_t i = 0; i < 64; ++i) *out++ = first + i;
    } else {
      for (; word != 0; word &= word - 1) {
        *out++ = first + static_cast<uint32_t>(std::countr_zero(word));
      }
    }
  }
  return kept;
}

bool RowMask::has_kept_nulls(const arrow::Array& column) const {
  const uint8_t* valid = column.null_bitmap_data();  // none if the type has no such bits
  if (!valid || column.null_count() == 0) return false;
  return arrow::internal::CountAndSetBits(bits_->data(), 0, valid, column.offset(), rows_) != kept_;
}

void RowMask::apply(Piece& piece) {
  if (!keeps_all()) {
    gather_all(piece, kept_rows(), [&](const auto& column) { return has_kept_nulls(column); });
  }
  *this = RowMask(kept_);
}

std::shared_ptr<arrow::Array> evaluate_kept(const Expression& expression, Piece& piece,
                                            RowMask& mask) {
  try {
    return evaluate(expression, piece);
  } catch (const Error&) {
    if (mask.keeps_all()) throw;
  }
  mask.apply(piece);
  return evaluate(expression, piece);
}

}  // namespace manta::data
