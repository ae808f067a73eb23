#include <arrow/api.h>

#include <algorithm>
#include <numeric>

#include "manta/base/error_internal.h"
#include "manta/data/duckdb_internal.h"
#include "manta/data/kept_rows_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/data/wide_types_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr const char* kKeeping = "keeping rows";
constexpr int64_t kGatheredBytes = 8 << 20;
constexpr int64_t kMostGatheredTexts = 16 << 20;
constexpr int kBitsOfRow = 32;
constexpr int64_t kBlockRows = RowLayout::kBlockRows;

template <class Call>
void with_text(const arrow::Array& lane, Call call) {
  if (lane.type_id() == arrow::Type::BINARY) {
    call(static_cast<const arrow::BinaryArray&>(lane));
  } else {
    call(static_cast<const arrow::LargeBinaryArray&>(lane));
  }
}

}  // namespace

KeptRows::KeptRows(const std::vector<std::shared_ptr<arrow::DataType>>& columns, NextBatch next)
    : next_(std::move(next)), layout_(columns) {}
KeptRows::~KeptRows() = default;

std::shared_ptr<arrow::Array> KeptRows::places(int64_t batch, int64_t rows) {
  constexpr int64_t kMost = int64_t{1} << kBitsOfRow;
  MANTA_CHECK(rows <= kMost && batch < kMost / 2, "rows without a place");
  return numbers_from(batch << kBitsOfRow, rows);
}

void KeptRows::keep(const arrow::RecordBatch& batch) {
  const int64_t rows = batch.num_rows();
  const auto& lanes = batch.columns();
  const size_t columns = layout_.slots().size();
  Kept& kept = kept_.emplace_back();
  std::vector<bool> points(columns);
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    int64_t end = std::min(rows, begin + kBlockRows);
    kept.blocks.push_back(memory_.take((end - begin) * layout_.row_bytes(), kKeeping));
    uint8_t* first = kept.blocks.back()->mutable_data();
    layout_.write(lanes, begin, end, first, points);
    for (int64_t i = 0; i < end - begin && layout_.has_texts(); ++i) {
      most_text_bytes_ =
          std::max(most_text_bytes_, layout_.text_bytes(first + i * layout_.row_bytes()));
    }
  }
  for (size_t i = 0; i < columns; ++i) {
    if (!points[i]) continue;
    kept.texts.push_back(batch.column(static_cast<int>(i)));
    with_text(*kept.texts.back(),
              [&](const auto& texts) { bytes_ += texts.total_values_length(); });
  }
  kept.keys = lanes_batch({lanes.begin() + static_cast<int64_t>(columns), lanes.end()}, rows);
  rows_ += rows;
  // With the keys and place of each row, here and where they are sorted.
  auto keys = static_cast<int64_t>(lanes.size() - columns) * 8;
  bytes_ += rows * (layout_.row_bytes() + 2 * keys);
  for (const auto& key : kept.keys->columns()) {
    if (lane_of(*key->type()) != duck::kBlob) continue;
    bool is_counted = std::any_of(kept.texts.begin(), kept.texts.end(), [&](const auto& text) {
      return text->data()->buffers[2] == key->data()->buffers[2];
    });
    if (is_counted) continue;
    with_text(*key, [&](const auto& texts) { bytes_ += texts.total_values_length(); });
  }
}

int64_t KeptRows::text_bytes(int64_t place) const { return layout_.text_bytes(row_at(place)); }

const uint8_t* KeptRows::row_at(int64_t place) const {
  auto number = static_cast<uint32_t>(place);
  return kept_[static_cast<uint64_t>(place) >> kBitsOfRow]
             .blocks[number >> RowLayout::kBitsOfBlock]
             ->data() +
         static_cast<int64_t>(number % kBlockRows) * layout_.row_bytes();
}

bool KeptRows::keep_all(int64_t& bytes) {
  while (bytes_ <= bytes) {
    auto batch = next_();
    if (!batch) {
      bytes -= bytes_;
      next_ = nullptr;  // they may outlive those that gave them
      memory_ = {};
      return true;
    }
    keep(*batch);
  }
  memory_ = {};
  bytes = 0;
  return false;
}

std::shared_ptr<arrow::RecordBatch> KeptRows::next() {
  if (given_ == kept_.size()) return next_ ? next_() : nullptr;
  auto batch = static_cast<int64_t>(given_++);
  Kept& kept = kept_[static_cast<size_t>(batch)];
  int64_t rows = kept.keys->num_rows();
  std::vector<int> all(layout_.slots().size());
  std::iota(all.begin(), all.end(), 0);
  auto lanes = gather(all, *places(batch, rows));
  for (const auto& key : kept.keys->columns()) lanes.push_back(key);
  kept = {};
  return lanes_batch(std::move(lanes), rows);
}

std::shared_ptr<arrow::RecordBatch> KeptRows::next_keys() {
  return given_ == kept_.size() ? nullptr : std::move(kept_[given_++].keys);
}

arrow::ArrayVector KeptRows::gather(const std::vector<int>& columns,
                                    const arrow::Array& places) const {
  if (columns.empty()) return {};  // the places may be those of another side
  auto& numbers = static_cast<const arrow::Int64Array&>(places);
  const int64_t length = numbers.length();
  const bool may_be_nowhere = numbers.null_count() > 0;
  std::vector<GatheredColumn> gathered;
  gathered.reserve(columns.size());
  for (int column : columns) {
    const auto& slot = layout_.slots()[static_cast<size_t>(column)];
    gathered.emplace_back(slot, slot.is_text ? arrow::large_binary() : slot.type, length,
                          may_be_nowhere);
  }
  gather_rows(layout_, gathered, length, [&](int64_t i) {
    return may_be_nowhere && numbers.IsNull(i) ? layout_.no_row() : row_at(numbers.Value(i));
  });
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
