#pragma once

#include <arrow/api.h>

#include <limits>
#include <string>
#include <vector>

#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"

/// For tests of operations on all rows: the columns and results of expected/wide.inc.
namespace manta::data {

inline const Json& wide_expected() {
#include "manta/data/expected/wide.inc"
  static const Json all = [&] {
    std::string text;
    for (const char* part : kWideExpected) text += part;
    return Json::parse(text);
  }();
  return all;
}

inline std::shared_ptr<arrow::Array> wide_column(const Json& column) {
  std::string type = column["type"];
  if (type == "float64") {  // JSON has no NaN
    arrow::DoubleBuilder builder;
    for (const Json& value : column["values"]) {
      if (value.is_null()) {
        check(builder.AppendNull(), "a test column");
      } else {
        check(builder.Append(value.is_string() ? std::stod(value.get<std::string>())
                                               : value.get<double>()),
              "a test column");
      }
    }
    return check(builder.Finish(), "a test column");
  }
  auto of = type == "int64"    ? arrow::int64()
            : type == "int32"  ? arrow::int32()
            : type == "uint64" ? arrow::uint64()
            : type == "bool"   ? arrow::boolean()
            : type == "string" ? arrow::utf8()
                               : arrow::timestamp(arrow::TimeUnit::MICRO);
  return array_from_json(of, column["values"]);
}

inline std::shared_ptr<arrow::Table> wide_table(const Json& columns) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [name, column] : columns.items()) {
    arrays.push_back(wide_column(column));
    fields.push_back(arrow::field(name, arrays.back()->type()));
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

/// A column of int64 with nulls as JSON.
inline Json json_ints(const arrow::Table& table, const std::string& name) {
  Json values = Json::array();
  for (const auto& chunk : table.GetColumnByName(name)->chunks()) {
    auto& column = static_cast<const arrow::Int64Array&>(*chunk);
    for (int64_t i = 0; i < column.length(); ++i) {
      values.push_back(column.IsNull(i) ? Json() : Json(column.Value(i)));
    }
  }
  return values;
}

inline std::string scalar_text(const arrow::Table& table, const std::string& name, int64_t row) {
  auto scalar = check(table.GetColumnByName(name)->GetScalar(row), "a value");
  return scalar->is_valid ? scalar->ToString() : "null";
}

/// The rows in several files and row groups.
class WideFiles : public ParquetFolder {
 public:
  WideFiles() {
    auto all = wide_table(wide_expected()["columns"]);
    write("a.parquet", *all->Slice(0, 100), 17);
    write("b.parquet", *all->Slice(100), 64);
    write_right();
  }
  Dataset left() const { return read_parquet({file("a.parquet"), file("b.parquet")}); }
  Dataset right() const { return read_parquet(file("r.parquet")); }

 private:
  void write_right() { write("r.parquet", *wide_table(wide_expected()["right"]), 13); }
};

}  // namespace manta::data
