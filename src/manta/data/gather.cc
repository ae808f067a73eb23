#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/extension_type.h>

#include <algorithm>
#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/data/gather_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr const char* kPicking = "picking rows";

template <class T>
void gather_values(const uint8_t* from, std::span<const uint32_t> rows, uint8_t* to) {
  auto* in = reinterpret_cast<const T*>(from);
  auto* out = reinterpret_cast<T*>(to);
  for (size_t i = 0; i < rows.size(); ++i) out[i] = in[rows[i]];
}

void gather_bits(const uint8_t* from, int64_t offset, std::span<const uint32_t> rows, uint8_t* to) {
  for (size_t i = 0; i < rows.size(); i += 64, to += 8) {
    uint64_t word = 0;
    size_t n = std::min<size_t>(64, rows.size() - i);
    for (size_t j = 0; j < n; ++j) {
      auto bit = static_cast<uint64_t>(offset) + rows[i + j];
      word |= uint64_t{(from[bit / 8] >> (bit % 8)) & 1u} << j;
    }
    std::memcpy(to, &word, sizeof(word));
  }
}

std::shared_ptr<arrow::Array> take_one_by_one(const arrow::Array& column,
                                              const arrow::Array& rows) {
  if (column.type_id() == arrow::Type::EXTENSION) {
    auto taken = take_rows(*static_cast<const arrow::ExtensionArray&>(column).storage(), rows);
    return arrow::ExtensionType::WrapArray(column.type(), taken);
  }
  auto wide = check(arrow::compute::Cast(rows, arrow::int64()), kPicking);
  auto& numbers = static_cast<const arrow::Int64Array&>(*wide);
  std::unique_ptr<arrow::ArrayBuilder> builder;
  check(arrow::MakeBuilderExactIndex(arrow::default_memory_pool(), column.type(), &builder),
        kPicking);
  arrow::ArraySpan values(*column.data());
  for (int64_t i = 0; i < numbers.length(); ++i) {
    check(numbers.IsNull(i) ? builder->AppendNull()
                            : builder->AppendArraySlice(values, numbers.Value(i), 1),
          kPicking);
  }
  return check(builder->Finish(), kPicking);
}

}  // namespace

std::shared_ptr<arrow::Array> take_rows(const arrow::Array& column, const arrow::Array& rows) {
  auto taken = arrow::compute::Take(column, rows);
  if (taken.ok()) return *taken;
  if (!taken.status().IsNotImplemented()) check(taken.status(), kPicking);
  return take_one_by_one(column, rows);
}

void gather_all(Piece& piece, std::span<const uint32_t> rows,
                const std::function<bool(const arrow::Array& column)>& has_nulls) {
  for (size_t i = 0; i < piece.columns.size(); ++i) {
    auto& column = piece.columns[i];
    try {
      column = gather(*column, rows, has_nulls(*column));
    } catch (const Error& error) {
      throw Error(error.kind(), str("column '", piece.names[i], "' of type ",
                                    column->type()->ToString(), ": ", error.what()));
    }
  }
  piece.rows = static_cast<int64_t>(rows.size());
}

std::shared_ptr<arrow::Array> gather(const arrow::Array& column, std::span<const uint32_t> rows,
                                     bool nulls) {
  auto n = static_cast<int64_t>(rows.size());
  int width = arrow::is_primitive(column.type_id()) ? column.type()->bit_width() : 0;
  if ((width != 1 && width != 32 && width != 64) || nulls) {
    arrow::UInt32Array indices(n, arrow::Buffer::Wrap(rows.data(), rows.size()));
    return take_rows(column, indices);
  }
  auto values = check(arrow::AllocateBuffer((n * width + 63) / 64 * 8), kPicking);
  const uint8_t* from = column.data()->buffers[1]->data();
  if (width == 1) {
    gather_bits(from, column.offset(), rows, values->mutable_data());
  } else if (width == 32) {
    gather_values<uint32_t>(from + column.offset() * 4, rows, values->mutable_data());
  } else {
    gather_values<uint64_t>(from + column.offset() * 8, rows, values->mutable_data());
  }
  return arrow::MakeArray(arrow::ArrayData::Make(
      column.type(), n, {nullptr, std::shared_ptr<arrow::Buffer>(std::move(values))}, 0));
}

}  // namespace manta::data
