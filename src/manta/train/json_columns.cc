#include <arrow/api.h>

#include "manta/io/arrow_status_internal.h"
#include "manta/train/config.h"
#include "manta/train/file_internal.h"
#include "manta/train/json_columns_internal.h"

namespace manta {
namespace train {
namespace {

template <class Builder, class T>
std::shared_ptr<arrow::Array> build_array(const Cells& cells, T (*convert)(const Json&)) {
  Builder builder;
  for (const Json& cell : cells)
    check(cell.is_null() ? builder.AppendNull() : builder.Append(convert(cell)),
          "making a table of metrics");
  return check(builder.Finish(), "making a table of metrics");
}

}  // namespace

void add_cells(const Json& json, const std::string& prefix, size_t row, size_t rows,
               Columns& columns) {
  for (const auto& [name, value] : json.items()) {
    if (value.is_object()) {
      add_cells(value, prefix + name + "/", row, rows, columns);
    } else {
      Cells& cells = columns[prefix + name];
      cells.resize(rows);
      cells[row] = value;
    }
  }
}

std::shared_ptr<arrow::Array> array_of(const Cells& cells) {
  bool integers = true, numbers = true, booleans = true;
  for (const Json& cell : cells) {
    if (cell.is_null()) continue;
    bool too_large = cell.is_number_unsigned() && cell.get<uint64_t>() > uint64_t{INT64_MAX};
    integers = integers && cell.is_number_integer() && !too_large;
    numbers = numbers && cell.is_number();
    booleans = booleans && cell.is_boolean();
  }
  if (integers)
    return build_array<arrow::Int64Builder, int64_t>(
        cells, [](const Json& j) { return j.get<int64_t>(); });
  if (numbers)
    return build_array<arrow::DoubleBuilder, double>(cells,
                                                     [](const Json& j) { return j.get<double>(); });
  if (booleans)
    return build_array<arrow::BooleanBuilder, bool>(cells,
                                                    [](const Json& j) { return j.get<bool>(); });
  return build_array<arrow::StringBuilder, std::string>(
      cells, [](const Json& j) { return j.is_string() ? j.get<std::string>() : to_text(j); });
}

}  // namespace train

std::shared_ptr<arrow::Table> Result::metrics_dataframe() const {
  train::Columns columns;
  size_t rows = metrics_history.size();
  for (size_t row = 0; row < rows; ++row)
    train::add_cells(metrics_history[row], "", row, rows, columns);
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [name, cells] : columns) {
    arrays.push_back(train::array_of(cells));
    fields.push_back(arrow::field(name, arrays.back()->type()));
  }
  return arrow::Table::Make(arrow::schema(fields), arrays, static_cast<int64_t>(rows));
}

}  // namespace manta
