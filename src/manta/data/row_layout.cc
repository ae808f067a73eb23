#include <arrow/api.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "manta/base/error_internal.h"
#include "manta/data/codebook_internal.h"
#include "manta/data/recycling_pool_internal.h"
#include "manta/data/row_layout_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr const char* kGatheringRows = "gathering rows";

void write_numbers(const arrow::Array& column, int64_t width, int64_t begin, int64_t end,
                   uint8_t* to, int64_t stride) {
  with_width(width, [&]<class T>(T) {
    const auto* from =
        reinterpret_cast<const T*>(column.data()->buffers[1]->data()) + column.offset();
    for (int64_t i = begin; i < end; ++i, to += stride) *reinterpret_cast<T*>(to) = from[i];
  });
}

template <class Call>
void with_code_width(int64_t width, Call call) {
  return width == 1 ? call(uint8_t{}) : call(uint16_t{});
}

void write_codes(const RowLayout::Column& column, int64_t width, int64_t begin, int64_t end,
                 uint8_t* to, int64_t stride) {
  const auto& indices = static_cast<const arrow::Int32Array&>(*column.values);
  const int32_t* from = indices.raw_values();
  const uint16_t* codes = column.codes->data();
  const bool has_nulls = indices.null_count() > 0;  // whose indices mean nothing
  with_code_width(width, [&]<class Code>(Code) {
    for (int64_t i = begin; i < end; ++i, to += stride) {
      uint16_t code = has_nulls && indices.IsNull(i) ? Codebook::kNull : codes[from[i]];
      *reinterpret_cast<Code*>(to) = static_cast<Code>(code);
    }
  });
}

uint16_t code_at(const RowLayout::Slot& slot, const uint8_t* row) {
  uint16_t code = 0;
  with_code_width(slot.width,
                  [&]<class Code>(Code) { code = *reinterpret_cast<const Code*>(row + slot.at); });
  return code;
}

bool is_null(const RowLayout::Slot& slot, const uint8_t* row) {
  if (slot.book) return code_at(slot, row) == Codebook::kNull;
  return (row[slot.null_byte] & slot.null_bit) != 0;
}

// Whether the rows point into the column.
template <class Column>
bool write_texts(const Column& column, int64_t begin, int64_t end, uint8_t* to, int64_t stride) {
  bool points = false;
  for (int64_t row = begin; row < end; ++row, to += stride) {
    auto& slot = *reinterpret_cast<TextSlot*>(to);
    slot = TextSlot::of(column.IsNull(row) ? std::string_view() : column.GetView(row));
    points = points || slot.length > TextSlot::kInPlace;
  }
  return points;
}

template <class Offset>
std::shared_ptr<arrow::Array> text_column_of(const std::shared_ptr<arrow::DataType>& type,
                                             std::span<const TextSlot> texts,
                                             std::shared_ptr<arrow::Buffer> valid, int64_t nulls) {
  arrow::MemoryPool* pool = &RecyclingPool::instance();
  auto length = static_cast<int64_t>(texts.size());
  int64_t total = 0;
  for (const TextSlot& text : texts) total += text.length;
  if (total > std::numeric_limits<Offset>::max()) {
    throw Error(
        ErrorKind::kResources,
        str(total, " bytes of text in ", length, " rows are more than the type ", type->ToString(),
            " can hold in a block; cast the column to large_", type->ToString()));
  }
  std::shared_ptr<arrow::Buffer> offsets =
      check(arrow::AllocateBuffer((length + 1) * static_cast<int64_t>(sizeof(Offset)), pool),
            kGatheringRows);
  std::shared_ptr<arrow::Buffer> bytes =
      check(arrow::AllocateBuffer(total + TextSlot::kInPlace, pool), kGatheringRows);
  auto* ends = reinterpret_cast<Offset*>(offsets->mutable_data());
  uint8_t* to = bytes->mutable_data();
  int64_t end = 0;
  *ends++ = 0;
  for (const TextSlot& text : texts) {
    if (text.length <= TextSlot::kInPlace) {
      std::memcpy(to + end, text.bytes, TextSlot::kInPlace);  // there is room behind the last one
    } else {
      std::memcpy(to + end, text.pointer, static_cast<size_t>(text.length));
    }
    end += text.length;
    *ends++ = static_cast<Offset>(end);
  }
  return arrow::MakeArray(arrow::ArrayData::Make(
      type, length, {std::move(valid), offsets, arrow::SliceBuffer(bytes, 0, total)}, nulls));
}

}  // namespace

TextSlot TextSlot::of(std::string_view text) {
  TextSlot slot;
  slot.length = static_cast<int64_t>(text.size());
  if (slot.length > kInPlace) {
    slot.pointer = text.data();
  } else {
    slot.pointer = nullptr;
    if (!text.empty()) std::memcpy(slot.bytes, text.data(), text.size());
  }
  return slot;
}

std::shared_ptr<arrow::Array> text_column(const std::shared_ptr<arrow::DataType>& type,
                                          std::span<const TextSlot> texts,
                                          std::shared_ptr<arrow::Buffer> valid, int64_t nulls) {
  return arrow::is_large_binary_like(type->id())
             ? text_column_of<int64_t>(type, texts, std::move(valid), nulls)
             : text_column_of<int32_t>(type, texts, std::move(valid), nulls);
}

RowLayout::RowLayout(const std::vector<std::shared_ptr<arrow::DataType>>& types,
                     const std::vector<Coding>& codings)
    : slots_(types.size()) {
  for (size_t i = 0; i < types.size(); ++i) {
    Slot& slot = slots_[i];
    slot.type = types[i];
    slot.is_text = arrow::is_base_binary_like(slot.type->id());
    slot.width = slot.is_text ? static_cast<int64_t>(sizeof(TextSlot)) : slot.type->byte_width();
    if (codings.empty() || !codings[i].book) continue;
    slot.book = codings[i].book;
    slot.width = codings[i].width;
  }
  // Wide ones first, so that each lies at a multiple of its width.
  std::vector<size_t> order(slots_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return slots_[a].width > slots_[b].width; });
  for (size_t i : order) {
    slots_[i].at = row_bytes_;
    row_bytes_ += slots_[i].width;
    if (slots_[i].is_text && !slots_[i].book) texts_at_.push_back(slots_[i].at);
  }
  nulls_at_ = row_bytes_;
  int64_t bits = 0;
  for (Slot& slot : slots_) {
    if (slot.book) continue;
    slot.null_byte = nulls_at_ + bits / 8;
    slot.null_bit = static_cast<uint8_t>(1u << (bits % 8));
    ++bits;
  }
  row_bytes_ += (bits + 7) / 8;
  row_bytes_ = (row_bytes_ + 7) / 8 * 8;
  no_row_.assign(static_cast<size_t>(row_bytes_), 0);  // the code of null
  std::fill(no_row_.begin() + nulls_at_, no_row_.end(), uint8_t{0xff});
}

void RowLayout::write(const std::vector<Column>& columns, int64_t begin, int64_t end, uint8_t* to,
                      std::vector<bool>& points) {
  constexpr int64_t kRows = 128;  // which stay in the nearest cache from one column to the next
  for (int64_t first = begin; first < end; first += kRows, to += kRows * row_bytes_) {
    int64_t rows = std::min(kRows, end - first);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t at = nulls_at_; at < row_bytes_; ++at) to[i * row_bytes_ + at] = 0;
    }
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (write_column(slots_[i], columns[i], first, first + rows, to)) points[i] = true;
    }
  }
}

// Whether the rows point into the column.
bool RowLayout::write_column(Slot& slot, const Column& from, int64_t begin, int64_t end,
                             uint8_t* to) const {
  uint8_t* first = to + slot.at;
  const arrow::Array& column = *from.values;
  slot.has_nulls = slot.has_nulls || column.null_count() > 0;
  if (slot.book) {
    write_codes(from, slot.width, begin, end, first, row_bytes_);
    return false;
  }
  bool points = false;
  if (!slot.is_text) {
    write_numbers(column, slot.width, begin, end, first, row_bytes_);
  } else if (arrow::is_large_binary_like(column.type_id())) {
    auto& texts = static_cast<const arrow::LargeBinaryArray&>(column);
    points = write_texts(texts, begin, end, first, row_bytes_);
  } else {
    auto& texts = static_cast<const arrow::BinaryArray&>(column);
    points = write_texts(texts, begin, end, first, row_bytes_);
  }
  if (column.null_count() == 0) return points;
  const uint8_t* valid = column.null_bitmap_data();
  uint8_t* nulls = to + slot.null_byte;
  for (int64_t row = begin; row < end; ++row, nulls += row_bytes_) {
    bool null = !arrow::bit_util::GetBit(valid, column.offset() + row);
    *nulls = static_cast<uint8_t>(*nulls | (null ? slot.null_bit : 0));
  }
  return points;
}

int64_t RowLayout::text_bytes(const uint8_t* row) const {
  int64_t bytes = 0;
  for (int64_t at : texts_at_) bytes += reinterpret_cast<const TextSlot*>(row + at)->length;
  return bytes;
}

int64_t RowLayout::all_text_bytes(const uint8_t* row) const {
  int64_t bytes = text_bytes(row);
  for (const Slot& slot : slots_) {
    if (!slot.is_text || !slot.book) continue;
    bytes += reinterpret_cast<const TextSlot*>(slot.book->values())[code_at(slot, row)].length;
  }
  return bytes;
}

GatheredColumn::GatheredColumn(const RowLayout::Slot& slot, std::shared_ptr<arrow::DataType> type,
                               int64_t rows, bool may_have_nulls)
    : is_text_(slot.is_text), type_(std::move(type)), length_(rows) {
  arrow::MemoryPool* pool = &RecyclingPool::instance();
  if (may_have_nulls) {
    valid_ = check(arrow::AllocateBuffer((rows + 7) / 8, pool), kGatheringRows);
    std::fill_n(valid_->mutable_data(), valid_->size(), uint8_t{0xff});
  }
  int64_t width = is_text_ ? static_cast<int64_t>(sizeof(TextSlot)) : slot.type->byte_width();
  values_ = check(arrow::AllocateBuffer(rows * width, pool), kGatheringRows);
}

void GatheredColumn::add(const RowLayout::Slot& slot, const uint8_t* const* rows, int64_t begin,
                         int64_t end) {
  const int64_t count = end - begin, at = slot.at;
  auto add_values = [&]<class T>(T* to) {
    if (!slot.book) {
      for (int64_t i = 0; i < count; ++i) to[i] = *reinterpret_cast<const T*>(rows[i] + at);
      return;
    }
    const T* values = reinterpret_cast<const T*>(slot.book->values());
    with_code_width(slot.width, [&]<class Code>(Code) {
      for (int64_t i = 0; i < count; ++i) {
        to[i] = values[*reinterpret_cast<const Code*>(rows[i] + at)];
      }
    });
  };
  if (is_text_) {
    add_values(reinterpret_cast<TextSlot*>(values_->mutable_data()) + begin);
  } else {
    with_width(slot.type->byte_width(), [&]<class T>(T) {
      add_values(reinterpret_cast<T*>(values_->mutable_data()) + begin);
    });
  }
  if (!valid_) return;
  uint8_t* valid = valid_->mutable_data();
  for (int64_t i = 0; i < count; ++i) {
    unsigned null = is_null(slot, rows[i]) ? 1 : 0;
    uint8_t& eight = valid[(begin + i) / 8];
    eight = static_cast<uint8_t>(eight & ~(null << ((begin + i) % 8)));
    nulls_ += null;
  }
}

std::shared_ptr<arrow::Array> GatheredColumn::finish() {
  if (nulls_ == 0) valid_ = nullptr;
  if (is_text_) {
    std::span texts(reinterpret_cast<const TextSlot*>(values_->data()),
                    static_cast<size_t>(length_));
    return text_column(type_, texts, valid_, nulls_);
  }
  return arrow::MakeArray(arrow::ArrayData::Make(type_, length_, {valid_, values_}, nulls_));
}

}  // namespace manta::data
