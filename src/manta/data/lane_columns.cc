#include <arrow/api.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_ops.h>

#include <cstring>
#include <limits>

#include "manta/base/error_internal.h"
#include "manta/data/lane_columns_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/wide_types_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr const char* kTakingLanes = "taking rows from DuckDB";

bool is_set(const uint64_t* validity, uint64_t row) {
  return !validity || (validity[row / 64] >> (row % 64) & 1);
}

bool all_set(const uint64_t* validity, uint64_t first, uint64_t rows) {
  return arrow::internal::CountSetBits(reinterpret_cast<const uint8_t*>(validity),
                                       static_cast<int64_t>(first),
                                       static_cast<int64_t>(rows)) == static_cast<int64_t>(rows);
}

// DuckDB counts the bytes of a value with 32 bits; of a larger number, it would use only the lower
// bits.
void require_length(uint64_t bytes) {
  if (bytes <= std::numeric_limits<uint32_t>::max()) return;
  throw Error(
      ErrorKind::kInvalidArgument,
      str("a text or binary value has ", bytes,
          " bytes; sorts, groups and joins take values of less than 4 GiB: drop the column, "
          "or keep such values in files and their names in the rows"));
}

template <class Column>
void fill_bytes(duck::Vector vector, const Column& lane, int64_t first, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    if (lane.IsNull(first + i)) continue;
    auto bytes = lane.GetView(first + i);
    require_length(bytes.size());
    duckdb().vector_assign_string_element_len(vector, static_cast<uint64_t>(i), bytes.data(),
                                              bytes.size());
  }
}

std::string_view bytes_of(const duck::String& text) {
  uint32_t length = text.in_place.length;
  return {length <= sizeof(text.in_place.data) ? text.in_place.data : text.pointer.data, length};
}

}  // namespace

void fill_vector(duck::Vector vector, const arrow::Array& lane, int64_t first, int64_t rows) {
  if (lane.null_count() > 0) {
    duckdb().vector_ensure_validity_writable(vector);
    arrow::internal::CopyBitmap(lane.null_bitmap_data(), lane.offset() + first, rows,
                                reinterpret_cast<uint8_t*>(duckdb().vector_get_validity(vector)),
                                0);
  }
  if (lane.type_id() == arrow::Type::BINARY) {
    return fill_bytes(vector, static_cast<const arrow::BinaryArray&>(lane), first, rows);
  }
  if (lane.type_id() == arrow::Type::LARGE_BINARY) {
    return fill_bytes(vector, static_cast<const arrow::LargeBinaryArray&>(lane), first, rows);
  }
  auto width = static_cast<size_t>(lane.type()->byte_width());
  std::memcpy(duckdb().vector_get_data(vector),
              lane.data()->buffers[1]->data() + static_cast<size_t>(lane.offset() + first) * width,
              static_cast<size_t>(rows) * width);
}

struct LaneColumns::Column {
  explicit Column(std::shared_ptr<arrow::DataType> lane_type) : type(std::move(lane_type)) {
    if (type->id() == arrow::Type::LARGE_LIST) {
      items = std::make_unique<Column>(type->field(0)->type());
    }
  }

  void add(duck::Vector vector, uint64_t first, uint64_t rows) {
    auto count = static_cast<int64_t>(rows);
    const uint64_t* validity = duckdb().vector_get_validity(vector);
    // Reserves room for all values first: work for each value is expensive.
    check(valid_bits.Reserve(count), kTakingLanes);
    if (!validity || all_set(validity, first, rows)) {
      valid_bits.UnsafeAppend(count, true);
      valid_rows += count;
    } else {
      for (uint64_t i = 0; i < rows; ++i) {
        bool valid = is_set(validity, first + i);
        valid_rows += valid;
        valid_bits.UnsafeAppend(valid);
      }
    }
    const void* data = duckdb().vector_get_data(vector);
    if (items) {
      auto* entries = static_cast<const duck::ListEntry*>(data) + first;
      duck::Vector child = duckdb().list_vector_get_child(vector);
      check(offsets.Reserve(count), kTakingLanes);
      for (uint64_t i = 0; i < rows; ++i) {
        offsets.UnsafeAppend(items->length);
        if (is_set(validity, first + i)) items->add(child, entries[i].offset, entries[i].length);
      }
    } else if (lane_of(*type) == duck::kBlob) {
      auto* texts = static_cast<const duck::String*>(data) + first;
      int64_t size = 0;
      for (uint64_t i = 0; i < rows; ++i) {
        if (is_set(validity, first + i)) size += static_cast<int64_t>(bytes_of(texts[i]).size());
      }
      check(offsets.Reserve(count), kTakingLanes);
      check(values.Reserve(size), kTakingLanes);
      for (uint64_t i = 0; i < rows; ++i) {
        offsets.UnsafeAppend(values.length());
        if (!is_set(validity, first + i)) continue;
        auto bytes = bytes_of(texts[i]);
        values.UnsafeAppend(bytes.data(), static_cast<int64_t>(bytes.size()));
      }
    } else {
      auto width = static_cast<uint64_t>(type->byte_width());
      check(values.Append(static_cast<const uint8_t*>(data) + first * width,
                          static_cast<int64_t>(rows * width)),
            kTakingLanes);
    }
    length += static_cast<int64_t>(rows);
  }

  int64_t bytes() const { return items ? items->bytes() : values.length(); }

  std::shared_ptr<arrow::Array> take() {
    std::shared_ptr<arrow::Buffer> validity = check(valid_bits.Finish(), kTakingLanes);
    int64_t nulls = length - valid_rows;
    if (nulls == 0) validity = nullptr;
    std::vector<std::shared_ptr<arrow::Buffer>> buffers = {validity};
    bool bytes = !items && lane_of(*type) == duck::kBlob;
    if (items || bytes) {
      check(offsets.Append(items ? items->length : values.length()), kTakingLanes);
      buffers.push_back(check(offsets.Finish(), kTakingLanes));
    }
    if (!items) buffers.push_back(check(values.Finish(), kTakingLanes));
    auto data = arrow::ArrayData::Make(type, length, std::move(buffers), nulls);
    if (items) data->child_data = {items->take()->data()};
    length = valid_rows = 0;
    return arrow::MakeArray(data);
  }

  const std::shared_ptr<arrow::DataType> type;
  int64_t length = 0, valid_rows = 0;
  arrow::TypedBufferBuilder<bool> valid_bits;
  arrow::TypedBufferBuilder<int64_t> offsets;
  arrow::BufferBuilder values;
  std::unique_ptr<Column> items;  // of a list
};

LaneColumns::LaneColumns(const std::vector<std::shared_ptr<arrow::DataType>>& types) {
  for (const auto& type : types) columns_.push_back(std::make_unique<Column>(type));
}
LaneColumns::~LaneColumns() = default;

void LaneColumns::add(duck::Chunk chunk, int64_t first, int64_t rows) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    columns_[i]->add(duckdb().data_chunk_get_vector(chunk, i), static_cast<uint64_t>(first),
                     static_cast<uint64_t>(rows));
  }
  rows_ += rows;
}

int64_t LaneColumns::bytes() const {
  int64_t bytes = 0;
  for (const auto& column : columns_) bytes += column->bytes();
  return bytes;
}

std::shared_ptr<arrow::RecordBatch> LaneColumns::take() {
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (size_t i = 0; i < columns_.size(); ++i) {
    columns.push_back(columns_[i]->take());
    fields.push_back(arrow::field(str("c", i), columns.back()->type()));
  }
  int64_t rows = rows_;
  rows_ = 0;
  return arrow::RecordBatch::Make(arrow::schema(fields), rows, std::move(columns));
}

}  // namespace manta::data
