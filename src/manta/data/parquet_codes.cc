#include <arrow/api.h>
#include <arrow/util/bit_util.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <array>
#include <vector>

#include "manta/data/parquet_codes_internal.h"
#include "manta/data/recycling_pool_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr const char* kReadingCodes = "reading a dictionary-encoded column";

std::shared_ptr<arrow::Buffer> new_buffer(int64_t bytes) {
  return check(arrow::AllocateBuffer(bytes, &RecyclingPool::instance()), kReadingCodes);
}

// The Parquet library gives codes of such column chunks only.
bool has_codes_only(const parquet::ColumnChunkMetaData& chunk) {
  bool has_dictionary = false, has_pages = false;
  for (const auto& pages : chunk.encoding_stats()) {
    bool is_code = pages.encoding == parquet::Encoding::RLE_DICTIONARY ||
                   pages.encoding == parquet::Encoding::PLAIN_DICTIONARY;
    switch (pages.page_type) {
      case parquet::PageType::DICTIONARY_PAGE:
        has_dictionary = true;
        break;
      case parquet::PageType::DATA_PAGE:
      case parquet::PageType::DATA_PAGE_V2:
        if (!is_code) return false;
        has_pages = true;
        break;
      default:
        break;
    }
  }
  return has_dictionary && has_pages;
}

// Whether values of the physical type are those of an Arrow array, bit for bit.
bool is_stored_as(const arrow::DataType& type, parquet::Type::type physical) {
  using arrow::Type;
  switch (type.id()) {
    case Type::INT32:
    case Type::UINT32:
    case Type::DATE32:
    case Type::TIME32:
      return physical == parquet::Type::INT32;
    case Type::INT64:
    case Type::UINT64:
    case Type::TIMESTAMP:
    case Type::TIME64:
      return physical == parquet::Type::INT64;
    case Type::FLOAT:
      return physical == parquet::Type::FLOAT;
    case Type::DOUBLE:
      return physical == parquet::Type::DOUBLE;
    case Type::STRING:
    case Type::BINARY:
      return physical == parquet::Type::BYTE_ARRAY;
    default:
      return false;
  }
}

template <class T>
std::shared_ptr<arrow::Array> values_of(const T* values, int64_t count,
                                        const std::shared_ptr<arrow::DataType>& type) {
  auto buffer = new_buffer(count * static_cast<int64_t>(sizeof(T)));
  std::copy_n(values, count, reinterpret_cast<T*>(buffer->mutable_data()));
  return arrow::MakeArray(arrow::ArrayData::Make(type, count, {nullptr, std::move(buffer)}, 0));
}

std::shared_ptr<arrow::Array> values_of(const parquet::ByteArray* values, int64_t count,
                                        const std::shared_ptr<arrow::DataType>& type) {
  arrow::BinaryBuilder builder;
  for (int64_t i = 0; i < count; ++i) {
    check(builder.Append(values[i].ptr, static_cast<int32_t>(values[i].len)), kReadingCodes);
  }
  auto data = check(builder.Finish(), kReadingCodes)->data()->Copy();
  data->type = type;
  return arrow::MakeArray(data);
}

// Whether all are in [0, end), without a branch for each.
bool are_below(const int32_t* codes, int64_t count, int64_t end) {
  constexpr int64_t kAtOnce = 8;
  const auto last = static_cast<uint32_t>(end - 1);
  // The highest bit, of the code or of what `last` is above it.
  auto is_outside = [&](int32_t code) {
    auto bits = static_cast<uint32_t>(code);
    return bits | (last - bits);
  };
  std::array<uint32_t, kAtOnce> outside{};
  int64_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    for (int64_t j = 0; j < kAtOnce; ++j)
      outside[static_cast<size_t>(j)] |= is_outside(codes[i + j]);
  }
  for (; i < count; ++i) outside[0] |= is_outside(codes[i]);
  return std::all_of(outside.begin(), outside.end(), [](uint32_t bits) { return bits >> 31 == 0; });
}

template <class ParquetType>
class TypedChunk final : public CodedChunk {
 public:
  using Reader = parquet::TypedColumnReader<ParquetType>;

  TypedChunk(std::shared_ptr<parquet::ColumnReader> reader, std::shared_ptr<arrow::DataType> type)
      : reader_(std::static_pointer_cast<Reader>(std::move(reader))),
        type_(std::move(type)),
        may_be_null_(reader_->descr()->max_definition_level() > 0) {}

  std::shared_ptr<arrow::Array> next(int64_t rows) override {
    auto buffer = new_buffer(rows * static_cast<int64_t>(sizeof(int32_t)));
    auto* codes = reinterpret_cast<int32_t*>(buffer->mutable_data());
    if (!dictionary_) dictionary_ = check(arrow::MakeEmptyArray(type_), kReadingCodes);
    if (may_be_null_) levels_.resize(static_cast<size_t>(rows));
    int64_t read = read_codes(rows, codes);
    auto valid = read < rows ? make_room_for_nulls(rows, read, codes) : nullptr;
    auto indices = arrow::MakeArray(arrow::ArrayData::Make(
        arrow::int32(), rows, {std::move(valid), std::move(buffer)}, rows - read));
    return std::make_shared<arrow::DictionaryArray>(arrow::dictionary(arrow::int32(), type_),
                                                    std::move(indices), dictionary_);
  }

  bool at_end() override { return !reader_->HasNext(); }

 private:
  // Reads the codes of the rows that are not null, and returns how many those are.
  int64_t read_codes(int64_t rows, int32_t* codes) {
    int64_t all_read = 0;
    for (int64_t row = 0; row < rows;) {
      const typename ParquetType::c_type* values = nullptr;
      int32_t count = 0;
      int64_t read = 0;
      int64_t seen = reader_->ReadBatchWithDictionary(
          rows - row, may_be_null_ ? levels_.data() + row : nullptr, /*rep_levels=*/nullptr,
          codes + all_read, &read, &values, &count);
      if (seen == 0) throw parquet::ParquetException("a column has fewer rows than it should have");
      if (dictionary_->length() == 0) dictionary_ = values_of(values, count, type_);
      row += seen;
      all_read += read;
    }
    // The library does not look whether there are such values.
    if (!are_below(codes, all_read, dictionary_->length())) {
      throw parquet::ParquetException("Index not in dictionary bounds");
    }
    return all_read;
  }

  // Moves codes to their rows, from the last one on, and says which rows have one.
  std::shared_ptr<arrow::Buffer> make_room_for_nulls(int64_t rows, int64_t read, int32_t* codes) {
    auto valid = new_buffer((rows + 7) / 8);
    std::fill_n(valid->mutable_data(), valid->size(), uint8_t{0});
    for (int64_t row = rows; row-- > 0;) {
      bool has_value = levels_[static_cast<size_t>(row)] > 0;
      if (has_value && read == 0) throw parquet::ParquetException("a column has too few values");
      codes[row] = has_value ? codes[--read] : 0;
      if (has_value) arrow::bit_util::SetBit(valid->mutable_data(), row);
    }
    return valid;
  }

  const std::shared_ptr<Reader> reader_;
  const std::shared_ptr<arrow::DataType> type_;
  const bool may_be_null_;
  std::vector<int16_t> levels_;  // of the rows: 0 is null
  std::shared_ptr<arrow::Array> dictionary_;
};

}  // namespace

std::unique_ptr<CodedChunk> CodedChunk::open(parquet::RowGroupReader& row_group, int leaf,
                                             const arrow::DataType& type) {
  auto chunk = row_group.metadata()->ColumnChunk(leaf);
  const auto* column = row_group.metadata()->schema()->Column(leaf);
  bool is_flat = column->max_repetition_level() == 0 && column->max_definition_level() <= 1 &&
                 column->path()->ToDotVector().size() == 1;
  if (!is_flat || !is_stored_as(type, column->physical_type()) || !has_codes_only(*chunk)) {
    return nullptr;
  }
  auto reader = row_group.ColumnWithExposeEncoding(leaf, parquet::ExposedEncoding::DICTIONARY);
  if (reader->GetExposedEncoding() != parquet::ExposedEncoding::DICTIONARY) return nullptr;
  auto shared = type.GetSharedPtr();
  switch (column->physical_type()) {
    case parquet::Type::INT32:
      return std::make_unique<TypedChunk<parquet::Int32Type>>(std::move(reader), shared);
    case parquet::Type::INT64:
      return std::make_unique<TypedChunk<parquet::Int64Type>>(std::move(reader), shared);
    case parquet::Type::FLOAT:
      return std::make_unique<TypedChunk<parquet::FloatType>>(std::move(reader), shared);
    case parquet::Type::DOUBLE:
      return std::make_unique<TypedChunk<parquet::DoubleType>>(std::move(reader), shared);
    default:
      return std::make_unique<TypedChunk<parquet::ByteArrayType>>(std::move(reader), shared);
  }
}

}  // namespace manta::data
