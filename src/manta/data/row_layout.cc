#include <arrow/api.h>
#include <arrow/util/bit_util.h>

#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "manta/base/error_internal.h"
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

// The bits of the rows [begin, end), which are at `rows`, in whole words. How many are set.
template <class BitOf>
int64_t write_bits(const uint8_t* const* rows, int64_t begin, int64_t end, arrow::Buffer& to,
                   const BitOf& bit_of) {
  constexpr int64_t kBits = GatheredColumn::kRowsOfWord;
  auto* words = reinterpret_cast<uint64_t*>(to.mutable_data()) + begin / kBits;
  int64_t set = 0;
  for (int64_t first = 0; first < end - begin; first += kBits) {
    int64_t count = std::min(kBits, end - begin - first);
    uint64_t word = 0;
    for (int64_t i = 0; i < count; ++i) word |= uint64_t{bit_of(rows[first + i])} << i;
    set += std::popcount(word);
    *words++ = word;
  }
  return set;
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
  std::shared_ptr<arrow::Buffer> bytes = check(arrow::AllocateBuffer(total, pool), kGatheringRows);
  auto* ends = reinterpret_cast<Offset*>(offsets->mutable_data());
  uint8_t* to = bytes->mutable_data();
  int64_t end = 0;
  *ends++ = 0;
  for (const TextSlot& text : texts) {
    if (text.length > 0) std::memcpy(to + end, text.data(), static_cast<size_t>(text.length));
    end += text.length;
    *ends++ = static_cast<Offset>(end);
  }
  return arrow::MakeArray(
      arrow::ArrayData::Make(type, length, {std::move(valid), offsets, bytes}, nulls));
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

RowLayout::RowLayout(const std::vector<std::shared_ptr<arrow::DataType>>& types)
    : slots_(types.size()) {
  for (size_t i = 0; i < types.size(); ++i) {
    Slot& slot = slots_[i];
    slot.type = types[i];
    slot.is_text = arrow::is_base_binary_like(slot.type->id());
    slot.width = slot.is_text ? static_cast<int64_t>(sizeof(TextSlot)) : slot.type->byte_width();
  }
  // Wide ones first, so that each lies at a multiple of its width.
  std::vector<size_t> order(slots_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return slots_[a].width > slots_[b].width; });
  for (size_t i : order) {
    slots_[i].at = row_bytes_;
    row_bytes_ += slots_[i].width;
    if (slots_[i].is_text) texts_at_.push_back(slots_[i].at);
  }
  nulls_at_ = row_bytes_;
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].null_byte = nulls_at_ + static_cast<int64_t>(i / 8);
    slots_[i].null_bit = static_cast<uint8_t>(1u << (i % 8));
  }
  row_bytes_ += static_cast<int64_t>((slots_.size() + 7) / 8);
  row_bytes_ = (row_bytes_ + 7) / 8 * 8;
  no_row_.assign(static_cast<size_t>(row_bytes_), 0);
  std::fill(no_row_.begin() + nulls_at_, no_row_.end(), uint8_t{0xff});
}

void RowLayout::write(const arrow::ArrayVector& columns, int64_t begin, int64_t end, uint8_t* to,
                      std::vector<bool>& points) {
  constexpr int64_t kRows = 128;  // which stay in the nearest cache from one column to the next
  for (int64_t first = begin; first < end; first += kRows, to += kRows * row_bytes_) {
    int64_t rows = std::min(kRows, end - first);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t at = nulls_at_; at < row_bytes_; ++at) to[i * row_bytes_ + at] = 0;
    }
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (write_column(slots_[i], *columns[i], first, first + rows, to)) points[i] = true;
    }
  }
}

// Whether the rows point into the column.
bool RowLayout::write_column(Slot& slot, const arrow::Array& column, int64_t begin, int64_t end,
                             uint8_t* to) const {
  uint8_t* first = to + slot.at;
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
  slot.has_nulls = true;
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

GatheredColumn::GatheredColumn(const RowLayout::Slot& slot, std::shared_ptr<arrow::DataType> type,
                               int64_t rows, bool may_be_nowhere)
    : slot_(slot), type_(std::move(type)), length_(rows) {
  if (slot_.has_nulls || may_be_nowhere) valid_ = new_bits();
  if (slot_.is_text) {
    texts_.resize(static_cast<size_t>(rows));
  } else {
    values_ = check(arrow::AllocateBuffer(rows * slot_.width, &RecyclingPool::instance()),
                    kGatheringRows);
  }
}

// Whole words, which add() writes.
std::shared_ptr<arrow::Buffer> GatheredColumn::new_bits() const {
  int64_t words = (length_ + kRowsOfWord - 1) / kRowsOfWord;
  return check(arrow::AllocateBuffer(words * 8, &RecyclingPool::instance()), kGatheringRows);
}

void GatheredColumn::add(const uint8_t* const* rows, int64_t begin, int64_t end) {
  if (slot_.is_text) {
    for (int64_t i = begin; i < end; ++i) {
      texts_[static_cast<size_t>(i)] =
          *reinterpret_cast<const TextSlot*>(rows[i - begin] + slot_.at);
    }
  } else {
    with_width(slot_.width, [&]<class T>(T) {
      auto* to = reinterpret_cast<T*>(values_->mutable_data()) + begin;
      for (int64_t i = 0; i < end - begin; ++i) {
        to[i] = *reinterpret_cast<const T*>(rows[i] + slot_.at);
      }
    });
  }
  if (!valid_) return;
  nulls_ += end - begin - write_bits(rows, begin, end, *valid_, [&](const uint8_t* row) {
              return (row[slot_.null_byte] & slot_.null_bit) == 0;
            });
}

std::shared_ptr<arrow::Array> GatheredColumn::finish() {
  if (nulls_ == 0) valid_ = nullptr;
  if (slot_.is_text) return text_column(type_, texts_, valid_, nulls_);
  return arrow::MakeArray(arrow::ArrayData::Make(type_, length_, {valid_, values_}, nulls_));
}

}  // namespace manta::data
