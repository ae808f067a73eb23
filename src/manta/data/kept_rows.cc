#include <arrow/api.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "manta/base/error_internal.h"
#include "manta/data/duckdb_internal.h"
#include "manta/data/kept_rows_internal.h"
#include "manta/data/plain_columns_internal.h"
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
// A column is coded if the first dictionary has at most so many values: looking up those of more
// takes longer than to read them from the rows.
constexpr int64_t kMostAtFirst = 1 << 15;
// With fewer at first, there will hardly ever be more than a byte has codes for.
constexpr int64_t kFew = 64;
constexpr size_t kMostOfAByte = 256;

template <class Call>
void with_text(const arrow::Array& lane, Call call) {
  if (lane.type_id() == arrow::Type::BINARY) {
    call(static_cast<const arrow::BinaryArray&>(lane));
  } else {
    call(static_cast<const arrow::LargeBinaryArray&>(lane));
  }
}

/// Where some rows are that follow each other in the result.
struct FoundRows {
  static constexpr int64_t kMost = 256;
  int64_t begin = 0, all = 0;  ///< `all` rows, from the row `begin` of the result on.
  int64_t count = 0;           ///< How many of them are found.
  std::array<const uint8_t*, kMost> rows;
  std::array<const RowLayout*, kMost> layouts;
};

}  // namespace

KeptRows::KeptRows(const std::vector<std::shared_ptr<arrow::DataType>>& columns, NextBatch next)
    : types_(columns), next_(std::move(next)) {
  layouts_.push_back(std::make_unique<RowLayout>(types_));
}
KeptRows::~KeptRows() = default;

std::shared_ptr<arrow::Array> KeptRows::places(int64_t batch, int64_t rows) {
  constexpr int64_t kMost = int64_t{1} << kBitsOfRow;
  MANTA_CHECK(rows <= kMost && batch < kMost / 2, "rows without a place");
  return numbers_from(batch << kBitsOfRow, rows);
}

// Whether the column's form is another one than before.
bool KeptRows::set_form(size_t column, const arrow::Array& lane) {
  Form& form = forms_[column];
  if (form.code_width == 0) return false;
  const std::vector<uint16_t>* codes = nullptr;
  if (lane.type_id() == arrow::Type::DICTIONARY) {
    codes = form.book->codes_of(static_cast<const arrow::DictionaryArray&>(lane).dictionary());
  }
  if (!codes) {
    form.code_width = 0;
  } else if (form.code_width == 1 && form.book->size() > kMostOfAByte) {
    form.code_width = 2;
  } else {
    return false;
  }
  return true;
}

// As the layout of the next rows has them, which is a new one if it must be.
std::vector<RowLayout::Column> KeptRows::columns_of(const arrow::RecordBatch& batch) {
  bool changed = false;
  for (size_t i = forms_.size(); i < columns(); ++i) {
    Form& form = forms_.emplace_back();
    const auto& lane = batch.column(static_cast<int>(i));
    if (lane->type_id() != arrow::Type::DICTIONARY) continue;
    auto values = static_cast<const arrow::DictionaryArray&>(*lane).dictionary()->length();
    if (values > kMostAtFirst) continue;
    form.book = std::make_unique<Codebook>(*types_[i]);
    form.code_width = values <= kFew ? 1 : 2;
    changed = true;
  }
  for (size_t i = 0; i < columns(); ++i) {
    changed = set_form(i, *batch.column(static_cast<int>(i))) || changed;
  }
  if (changed) {
    std::vector<RowLayout::Coding> codings;
    for (const Form& form : forms_) {
      codings.push_back({form.code_width > 0 ? form.book.get() : nullptr, form.code_width});
    }
    layouts_.push_back(std::make_unique<RowLayout>(types_, codings));
  }
  std::vector<RowLayout::Column> result;
  for (size_t i = 0; i < columns(); ++i) {
    auto lane = batch.column(static_cast<int>(i));
    if (forms_[i].code_width == 0) {
      result.push_back({plain_column(std::move(lane))});
      continue;
    }
    auto& coded = static_cast<const arrow::DictionaryArray&>(*lane);
    result.push_back({coded.indices(), forms_[i].book->codes_of(coded.dictionary())});
  }
  return result;
}

void KeptRows::keep(const arrow::RecordBatch& batch) {
  const int64_t rows = batch.num_rows(), bytes_of_books = book_bytes();
  auto lanes = columns_of(batch);
  RowLayout& layout = *layouts_.back();
  Kept& kept = kept_.emplace_back();
  kept.first_block = blocks_.size();
  std::vector<bool> points(columns());
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    int64_t end = std::min(rows, begin + kBlockRows);
    kept.blocks.push_back(memory_.take((end - begin) * layout.row_bytes(), kKeeping));
    uint8_t* first = kept.blocks.back()->mutable_data();
    blocks_.push_back({first, &layout});
    layout.write(lanes, begin, end, first, points);
    for (int64_t i = 0; i < end - begin && layout.has_texts(); ++i) {
      most_text_bytes_ =
          std::max(most_text_bytes_, layout.text_bytes(first + i * layout.row_bytes()));
    }
  }
  for (size_t i = 0; i < columns(); ++i) {
    if (!points[i]) continue;
    kept.texts.push_back(lanes[i].values);
    with_text(*kept.texts.back(),
              [&](const auto& texts) { bytes_ += texts.total_values_length(); });
  }
  rows_ += rows;
  row_bytes_ += rows * layout.row_bytes();
  bytes_ += rows * layout.row_bytes() + book_bytes() - bytes_of_books;
  keep_keys(batch, kept);
}

void KeptRows::keep_keys(const arrow::RecordBatch& batch, Kept& kept) {
  const auto& lanes = batch.columns();
  kept.keys =
      lanes_batch({lanes.begin() + static_cast<int64_t>(columns()), lanes.end()}, batch.num_rows());
  // With the keys and place of each row, here and where they are sorted.
  bytes_ += batch.num_rows() * 2 * static_cast<int64_t>(lanes.size() - columns()) * 8;
  for (const auto& key : kept.keys->columns()) {
    if (lane_of(*key->type()) != duck::kBlob) continue;
    bool is_counted = std::any_of(kept.texts.begin(), kept.texts.end(), [&](const auto& text) {
      return text->data()->buffers[2] == key->data()->buffers[2];
    });
    if (is_counted) continue;
    with_text(*key, [&](const auto& texts) { bytes_ += texts.total_values_length(); });
  }
}

int64_t KeptRows::book_bytes() const {
  int64_t bytes = 0;
  for (const Form& form : forms_) bytes += form.book ? form.book->bytes() : 0;
  return bytes;
}

int64_t KeptRows::most_text_bytes() const {
  int64_t bytes = most_text_bytes_;
  for (const Form& form : forms_) bytes += form.book ? form.book->most_text_bytes() : 0;
  return bytes;
}

int64_t KeptRows::text_bytes(int64_t place) const {
  auto [row, layout] = row_at(place);
  return layout->all_text_bytes(row);
}

KeptRows::RowPlace KeptRows::row_at(int64_t place) const {
  auto number = static_cast<uint32_t>(place);
  const Block& block = blocks_[kept_[static_cast<uint64_t>(place) >> kBitsOfRow].first_block +
                               (number >> RowLayout::kBitsOfBlock)];
  return {block.rows + static_cast<int64_t>(number % kBlockRows) * block.layout->row_bytes(),
          block.layout};
}

bool KeptRows::keep_all(int64_t& bytes) {
  while (bytes_ <= bytes) {
    auto batch = next_();
    if (!batch) {
      bytes -= bytes_;
      next_ = nullptr;  // they may outlive those that gave them
      stop_keeping();
      return true;
    }
    keep(*batch);
  }
  stop_keeping();
  bytes = 0;
  return false;
}

void KeptRows::stop_keeping() {
  memory_ = {};
  for (Form& form : forms_) {
    if (form.book) form.book->close();
  }
}

std::shared_ptr<arrow::RecordBatch> KeptRows::next() {
  if (given_ == kept_.size()) {
    auto batch = next_ ? next_() : nullptr;
    if (!batch) return nullptr;
    auto lanes = batch->columns();
    for (auto& lane : lanes) lane = plain_column(std::move(lane));
    return lanes_batch(std::move(lanes), batch->num_rows());
  }
  auto batch = static_cast<int64_t>(given_++);
  Kept& kept = kept_[static_cast<size_t>(batch)];
  int64_t rows = kept.keys->num_rows();
  std::vector<int> all(columns());
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
  const RowLayout& any = *layouts_.back();
  std::vector<GatheredColumn> gathered;
  gathered.reserve(columns.size());
  for (int column : columns) {
    auto number = static_cast<size_t>(column);
    bool may_have_nulls = std::any_of(layouts_.begin(), layouts_.end(), [&](const auto& layout) {
      return layout->slots()[number].has_nulls;
    });
    const auto& slot = any.slots()[number];
    gathered.emplace_back(slot, slot.is_text ? arrow::large_binary() : slot.type, length,
                          may_have_nulls || may_be_nowhere);
  }
  constexpr int64_t kFirstLevelCache = 24 << 10;  // a part of it
  const int64_t at_once =
      std::clamp<int64_t>(kFirstLevelCache / any.row_bytes(), 64, FoundRows::kMost);
  // Each row is another line of memory. Those of the next rows are on their way while these are
  // written, a few after each column: the processor waits for more than it can ask for at a time.
  std::array<FoundRows, 2> rooms;
  FoundRows *now = &rooms[0], *next = &rooms[1];
  auto find = [&](FoundRows& found, int64_t most) {
    for (int64_t end = std::min(found.all, found.count + most); found.count < end; ++found.count) {
      int64_t i = found.begin + found.count;
      bool is_nowhere = may_be_nowhere && numbers.IsNull(i);
      auto [row, layout] = is_nowhere ? RowPlace{any.no_row(), &any} : row_at(numbers.Value(i));
      for (int64_t byte = 0; byte < layout->row_bytes(); byte += RowLayout::kLine) {
        __builtin_prefetch(row + byte);
      }
      __builtin_prefetch(row + layout->row_bytes() - 1);  // it may end in another line
      found.rows[static_cast<size_t>(found.count)] = row;
      found.layouts[static_cast<size_t>(found.count)] = layout;
    }
  };
  auto begin_at = [&](FoundRows& found, int64_t begin) {
    found.begin = begin;
    found.all = std::clamp<int64_t>(length - begin, 0, at_once);
    found.count = 0;
  };
  const int64_t few = at_once / static_cast<int64_t>(columns.size()) + 1;
  begin_at(*next, 0);
  while (next->all > 0) {
    find(*next, next->all);
    std::swap(now, next);
    begin_at(*next, now->begin + now->all);
    // Rows beside each other mostly have the same layout: others are those of the first batches.
    for (int64_t first = 0, end = 0; first < now->all; first = end) {
      const RowLayout* layout = now->layouts[static_cast<size_t>(first)];
      while (end < now->all && now->layouts[static_cast<size_t>(end)] == layout) ++end;
      for (size_t i = 0; i < columns.size(); ++i) {
        gathered[i].add(layout->slots()[static_cast<size_t>(columns[i])], now->rows.data() + first,
                        now->begin + first, now->begin + end);
        find(*next, few);
      }
    }
  }
  arrow::ArrayVector lanes;
  for (auto& column : gathered) lanes.push_back(column.finish());
  return lanes;
}

int64_t KeptRows::rows_at_a_time() const {
  // Without codes.
  int64_t beside_rows = (bytes_ - row_bytes_) / std::max<int64_t>(rows_, 1) + 1;
  return std::clamp<int64_t>(kGatheredBytes / (layouts_.front()->row_bytes() + beside_rows), 1,
                             kPieceRows);
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
