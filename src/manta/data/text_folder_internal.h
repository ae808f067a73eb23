#pragma once

#include <arrow/api.h>
#include <arrow/util/float16.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "manta/base/json.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/dataset.h"

namespace manta::data {

/// For tests: a temporary folder with files of any content in it.
class TextFolder : public TemporaryFolder {
 public:
  /// Makes the folders of the name, too.
  std::string write(const std::string& name, const std::string& content) const {
    std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
};

/// For tests: a value as JSON has it.
inline Json value_as_json(const arrow::Array& column, int64_t row) {
  if (column.IsNull(row)) return nullptr;
  auto scalar = column.GetScalar(row).ValueOrDie();
  switch (column.type_id()) {
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(column).Value(row);
    case arrow::Type::HALF_FLOAT:
      return arrow::util::Float16::FromBits(
                 static_cast<const arrow::HalfFloatArray&>(column).Value(row))
          .ToDouble();
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE:
      return static_cast<const arrow::DoubleScalar&>(*scalar->CastTo(arrow::float64()).ValueOrDie())
          .value;
    case arrow::Type::UINT64:
      return static_cast<const arrow::UInt64Array&>(column).Value(row);
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return std::string(static_cast<const arrow::BinaryArray&>(column).GetView(row));
    case arrow::Type::LIST:
    case arrow::Type::FIXED_SIZE_LIST: {
      Json list = Json::array();
      const auto& values = *static_cast<const arrow::BaseListScalar&>(*scalar).value;
      for (int64_t i = 0; i < values.length(); ++i) list.push_back(value_as_json(values, i));
      return list;
    }
    case arrow::Type::STRUCT: {
      Json object = Json::object();
      const auto& fields = static_cast<const arrow::StructArray&>(column);
      for (int i = 0; i < fields.num_fields(); ++i) {
        object[fields.struct_type()->field(i)->name()] = value_as_json(*fields.field(i), row);
      }
      return object;
    }
    default:
      return arrow::is_integer(column.type_id())
                 ? Json(static_cast<const arrow::Int64Scalar&>(
                            *scalar->CastTo(arrow::int64()).ValueOrDie())
                            .value)
                 : Json(scalar->ToString());
  }
}

/// For tests: [{"a": 1, "b": "x"}, ...].
inline Json rows_as_json(const arrow::Table& table) {
  Json rows = Json::array();
  for (int64_t row = 0; row < table.num_rows(); ++row) rows.push_back(Json::object());
  for (int i = 0; i < table.num_columns(); ++i) {
    size_t row = 0;
    for (const auto& chunk : table.column(i)->chunks()) {
      for (int64_t at = 0; at < chunk->length(); ++at) {
        rows[row++][table.field(i)->name()] = value_as_json(*chunk, at);
      }
    }
  }
  return rows;
}

/// For tests: [1, 2, ...], a column of a data set.
inline Json column_as_json(const Dataset& dataset, const std::string& name) {
  Json values = Json::array();
  for (const Json& row : rows_as_json(*dataset.select_columns({name}).to_table())) {
    values.push_back(row[name]);
  }
  return values;
}

/// For tests: the bytes of "00ff".
inline std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

}  // namespace manta::data
