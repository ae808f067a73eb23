#include <arrow/api.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "manta/base/error_internal.h"
#include "manta/data/duckdb_internal.h"
#include "manta/data/kept_rows_internal.h"
#include "manta/data/recycling_pool_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/data/wide_types_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr const char* kKeeping = "keeping rows";
constexpr const char* kGathering = "gathering rows";
constexpr int64_t kGatheredBytes = 8 << 20;
constexpr int64_t kMostGatheredTexts = 16 << 20;
constexpr int kBitsOfRow = 32;
// Rows are written and read in blocks that stay in the processor's cache from one column to the
// next. They are small enough that the allocator keeps them for the operation that comes next:
// where new memory comes from the host of a virtual machine, it takes longer than all the rest.
constexpr int kBitsOfBlock = 10;
constexpr int64_t kBlockRows = 1 << kBitsOfBlock;

using SixteenBytes = std::array<uint64_t, 2>;

/// A text in a row: its bytes, if they are few, or where they are.
struct TextSlot {
  static constexpr int64_t kInPlace = 8;
  int64_t length;
  union {
    char bytes[kInPlace];
    const char* pointer;
  };
};
static_assert(sizeof(TextSlot) == 16);

// Calls `call` with a value of the type that has so many bytes.
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
      MANTA_CHECK(width == 16, "a lane of another width");
      return call(SixteenBytes{});
  }
}

template <class Call>
void with_text(const arrow::Array& lane, Call call) {
  if (lane.type_id() == arrow::Type::BINARY) {
    call(static_cast<const arrow::BinaryArray&>(lane));
  } else {
    call(static_cast<const arrow::LargeBinaryArray&>(lane));
  }
}

void write_numbers(const arrow::Array& lane, int64_t width, int64_t begin, int64_t end, uint8_t* to,
                   int64_t stride) {
  with_width(width, [&]<class T>(T) {
    const auto* from = reinterpret_cast<const T*>(lane.data()->buffers[1]->data()) + lane.offset();
    for (int64_t i = begin; i < end; ++i, to += stride) *reinterpret_cast<T*>(to) = from[i];
  });
}

// Whether the rows point into the column.
template <class Column>
bool write_texts(const Column& column, int64_t begin, int64_t end, uint8_t* to, int64_t stride) {
  bool points = false;
  for (int64_t row = begin; row < end; ++row, to += stride) {
    auto& slot = *reinterpret_cast<TextSlot*>(to);
    slot.length = 0;
    if (column.IsNull(row)) continue;
    auto text = column.GetView(row);
    slot.length = static_cast<int64_t>(text.size());
    if (slot.length <= TextSlot::kInPlace) {
      std::memcpy(slot.bytes, text.data(), text.size());
    } else {
      slot.pointer = text.data();
      points = true;
    }
  }
  return points;
}

}  // namespace

KeptRows::KeptRows(const std::vector<std::shared_ptr<arrow::DataType>>& columns, NextBatch next)
    : next_(std::move(next)), slots_(columns.size()) {
  for (size_t i = 0; i < columns.size(); ++i) {
    Slot& slot = slots_[i];
    slot.type = columns[i];
    slot.is_text = lane_of(*slot.type) == duck::kBlob;
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
KeptRows::~KeptRows() = default;

std::shared_ptr<arrow::Array> KeptRows::places(int64_t batch, int64_t rows) {
  constexpr int64_t kMost = int64_t{1} << kBitsOfRow;
  MANTA_CHECK(rows <= kMost && batch < kMost / 2, "rows without a place");
  return numbers_from(batch << kBitsOfRow, rows);
}

void KeptRows::keep(const arrow::RecordBatch& batch) {
  const int64_t rows = batch.num_rows();
  Kept& kept = kept_.emplace_back();
  std::vector<bool> points(slots_.size());
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    int64_t end = std::min(rows, begin + kBlockRows);
    kept.blocks.push_back(check(arrow::AllocateBuffer((end - begin) * row_bytes_), kKeeping));
    uint8_t* first = kept.blocks.back()->mutable_data();
    for (int64_t i = 0; i < end - begin; ++i) {
      std::memset(first + i * row_bytes_ + nulls_at_, 0,
                  static_cast<size_t>(row_bytes_ - nulls_at_));
    }
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      const auto& lane = *batch.column(static_cast<int>(i));
      if (!slot.is_text) {
        write_numbers(lane, slot.width, begin, end, first + slot.at, row_bytes_);
      } else {
        with_text(lane, [&](const auto& texts) {
          if (write_texts(texts, begin, end, first + slot.at, row_bytes_)) points[i] = true;
        });
      }
      if (lane.null_count() == 0) continue;
      slot.has_nulls = true;
      uint8_t* nulls = first + slot.null_byte;
      for (int64_t row = begin; row < end; ++row, nulls += row_bytes_) {
        if (lane.IsNull(row)) *nulls |= slot.null_bit;
      }
    }
    for (int64_t i = 0; i < end - begin && !texts_at_.empty(); ++i) {
      most_text_bytes_ = std::max(most_text_bytes_, text_bytes_of(first + i * row_bytes_));
    }
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!points[i]) continue;
    kept.texts.push_back(batch.column(static_cast<int>(i)));
    with_text(*kept.texts.back(),
              [&](const auto& texts) { bytes_ += texts.total_values_length(); });
  }
  const auto& lanes = batch.columns();
  kept.keys = lanes_batch({lanes.begin() + std::ssize(slots_), lanes.end()}, rows);
  rows_ += rows;
  // With the keys and place of each row, here and in DuckDB.
  auto keys = static_cast<int64_t>(lanes.size() - slots_.size()) * 8;
  bytes_ += rows * (row_bytes_ + 2 * keys);
  for (const auto& key : kept.keys->columns()) {
    if (lane_of(*key->type()) != duck::kBlob) continue;
    bool is_counted = std::any_of(kept.texts.begin(), kept.texts.end(), [&](const auto& text) {
      return text->data()->buffers[2] == key->data()->buffers[2];
    });
    if (is_counted) continue;
    with_text(*key, [&](const auto& texts) { bytes_ += texts.total_values_length(); });
  }
}

int64_t KeptRows::text_bytes_of(const uint8_t* row) const {
  int64_t bytes = 0;
  for (int64_t at : texts_at_) bytes += reinterpret_cast<const TextSlot*>(row + at)->length;
  return bytes;
}

int64_t KeptRows::text_bytes(int64_t place) const { return text_bytes_of(row_at(place)); }

const uint8_t* KeptRows::row_at(int64_t place) const {
  auto number = static_cast<uint32_t>(place);
  return kept_[static_cast<uint64_t>(place) >> kBitsOfRow].blocks[number >> kBitsOfBlock]->data() +
         static_cast<int64_t>(number % kBlockRows) * row_bytes_;
}

bool KeptRows::keep_all(int64_t& bytes) {
  while (bytes_ <= bytes) {
    auto batch = next_();
    if (!batch) {
      bytes -= bytes_;
      next_ = nullptr;  // they may outlive those that gave them
      return true;
    }
    keep(*batch);
  }
  bytes = 0;
  return false;
}

std::shared_ptr<arrow::RecordBatch> KeptRows::next() {
  if (given_ == kept_.size()) return next_ ? next_() : nullptr;
  auto batch = static_cast<int64_t>(given_++);
  Kept& kept = kept_[static_cast<size_t>(batch)];
  int64_t rows = kept.keys->num_rows();
  std::vector<int> all(slots_.size());
  std::iota(all.begin(), all.end(), 0);
  auto lanes = gather(all, *places(batch, rows));
  for (const auto& key : kept.keys->columns()) lanes.push_back(key);
  kept = {};
  return lanes_batch(std::move(lanes), rows);
}

std::shared_ptr<arrow::RecordBatch> KeptRows::next_keys() {
  return given_ == kept_.size() ? nullptr : std::move(kept_[given_++].keys);
}

/// One column of gathered rows.
struct KeptRows::Gathered {
  Gathered(const Slot& from, int64_t rows, bool may_be_nowhere) : slot(from), length(rows) {
    if (slot.has_nulls || may_be_nowhere) {
      valid = check(arrow::AllocateEmptyBitmap(rows, pool), kGathering);
    }
    if (slot.is_text) {
      texts.resize(static_cast<size_t>(rows));
      values = check(arrow::AllocateBuffer((rows + 1) * 8, pool), kGathering);
    } else {
      values = check(arrow::AllocateBuffer(rows * slot.width, pool), kGathering);
    }
  }

  // For the rows [begin, end), which are at `rows`.
  void add(const uint8_t* const* rows, int64_t begin, int64_t end) {
    if (slot.is_text) {
      for (int64_t i = begin; i < end; ++i) {
        texts[static_cast<size_t>(i)] =
            *reinterpret_cast<const TextSlot*>(rows[i - begin] + slot.at);
      }
    } else {
      with_width(slot.width, [&]<class T>(T) {
        auto* to = reinterpret_cast<T*>(values->mutable_data()) + begin;
        for (int64_t i = 0; i < end - begin; ++i) {
          to[i] = *reinterpret_cast<const T*>(rows[i] + slot.at);
        }
      });
    }
    if (!valid) return;
    for (int64_t i = begin; i < end; ++i) {
      bool null = rows[i - begin][slot.null_byte] & slot.null_bit;
      nulls += null;
      if (!null) arrow::bit_util::SetBit(valid->mutable_data(), i);
    }
  }

  std::shared_ptr<arrow::Array> finish() {
    if (nulls == 0) valid = nullptr;
    if (!slot.is_text) {
      return arrow::MakeArray(arrow::ArrayData::Make(slot.type, length, {valid, values}, nulls));
    }
    auto* ends = reinterpret_cast<int64_t*>(values->mutable_data());
    ends[0] = 0;
    for (size_t i = 0; i < texts.size(); ++i) ends[i + 1] = ends[i] + texts[i].length;
    std::shared_ptr<arrow::Buffer> bytes =
        check(arrow::AllocateBuffer(ends[texts.size()], pool), kGathering);
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto& text = texts[i];
      if (text.length == 0) continue;
      std::memcpy(bytes->mutable_data() + ends[i],
                  text.length <= TextSlot::kInPlace ? text.bytes : text.pointer,
                  static_cast<size_t>(text.length));
    }
    return arrow::MakeArray(
        arrow::ArrayData::Make(arrow::large_binary(), length, {valid, values, bytes}, nulls));
  }

  const Slot& slot;
  const int64_t length;
  arrow::MemoryPool* const pool = &RecyclingPool::instance();
  std::shared_ptr<arrow::Buffer> valid, values;
  std::vector<TextSlot> texts;
  int64_t nulls = 0;
};

arrow::ArrayVector KeptRows::gather(const std::vector<int>& columns,
                                    const arrow::Array& places) const {
  if (columns.empty()) return {};  // the places may be those of another side
  auto& numbers = static_cast<const arrow::Int64Array&>(places);
  const int64_t length = numbers.length();
  const bool may_be_nowhere = numbers.null_count() > 0;
  std::vector<Gathered> gathered;
  gathered.reserve(columns.size());
  for (int column : columns) {
    gathered.emplace_back(slots_[static_cast<size_t>(column)], length, may_be_nowhere);
  }
  std::array<const uint8_t*, kBlockRows> rows{};
  for (int64_t begin = 0; begin < length; begin += kBlockRows) {
    int64_t end = std::min(length, begin + kBlockRows);
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t*& row = rows[static_cast<size_t>(i - begin)];
      row = may_be_nowhere && numbers.IsNull(i) ? no_row_.data() : row_at(numbers.Value(i));
    }
    for (auto& column : gathered) column.add(rows.data(), begin, end);
  }
  arrow::ArrayVector lanes;
  for (auto& column : gathered) lanes.push_back(column.finish());
  return lanes;
}

int64_t KeptRows::rows_at_a_time() const {
  int64_t row_bytes = bytes_ / std::max<int64_t>(rows_, 1) + 1;
  return std::clamp<int64_t>(kGatheredBytes / row_bytes, 1, kPieceRows);
}

GatheredParts::GatheredParts(std::vector<const KeptRows*> sides)
    : sides_(std::move(sides)), most_rows_(kPieceRows) {
  for (const KeptRows* side : sides_) {
    most_rows_ = std::min(most_rows_, side->rows_at_a_time());
    most_text_bytes_ += side->most_text_bytes();
  }
}

int64_t GatheredParts::rows(const arrow::RecordBatch& places, int64_t first) const {
  int64_t most = std::min(most_rows_, places.num_rows() - first);
  // Mostly no rows can be too large together, and need not be looked at.
  if (most_text_bytes_ <= kMostGatheredTexts / most) return most;
  int64_t bytes = 0;
  for (int64_t rows = 0; rows < most; ++rows) {
    for (size_t i = 0; i < sides_.size(); ++i) {
      auto& lane = static_cast<const arrow::Int64Array&>(*places.column(static_cast<int>(i)));
      if (lane.IsValid(first + rows)) bytes += sides_[i]->text_bytes(lane.Value(first + rows));
    }
    if (bytes > kMostGatheredTexts) return std::max<int64_t>(rows, 1);
  }
  return most;
}

}  // namespace manta::data
