#include <arrow/api.h>

#include <map>

#include "manta/base/error_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/file_internal.h"
#include "manta/tune/result_grid.h"
#include "manta/tune/trials_internal.h"

namespace manta {
namespace {

// A column, before its type is known: a value for each trial, or none.
using Cells = std::vector<Json>;
using Columns = std::map<std::string, Cells>;

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

template <class Builder, class T>
std::shared_ptr<arrow::Array> build(const Cells& cells, T (*convert)(const Json&)) {
  Builder builder;
  for (const Json& cell : cells)
    check(cell.is_null() ? builder.AppendNull() : builder.Append(convert(cell)), "get_dataframe");
  return check(builder.Finish(), "get_dataframe");
}

std::shared_ptr<arrow::Array> build(const Cells& cells) {
  bool integers = true, numbers = true, booleans = true;
  for (const Json& cell : cells) {
    if (cell.is_null()) continue;
    bool too_large = cell.is_number_unsigned() && cell.get<uint64_t>() > uint64_t{INT64_MAX};
    integers = integers && cell.is_number_integer() && !too_large;
    numbers = numbers && cell.is_number();
    booleans = booleans && cell.is_boolean();
  }
  if (integers)
    return build<arrow::Int64Builder, int64_t>(cells,
                                               [](const Json& j) { return j.get<int64_t>(); });
  if (numbers)
    return build<arrow::DoubleBuilder, double>(cells,
                                               [](const Json& j) { return j.get<double>(); });
  if (booleans)
    return build<arrow::BooleanBuilder, bool>(cells, [](const Json& j) { return j.get<bool>(); });
  return build<arrow::StringBuilder, std::string>(cells, [](const Json& j) {
    return j.is_string() ? j.get<std::string>() : train::to_text(j);
  });
}

}  // namespace

std::shared_ptr<arrow::Table> ResultGrid::get_dataframe() const {
  Cells names, outcomes, errors, iterations;
  Columns metrics, config;
  for (size_t row = 0; row < size(); ++row) {
    const Result& result = results_[row];
    names.push_back(tune::trial_name(row));
    outcomes.push_back(train::outcome_name(result.outcome));
    errors.push_back(result.error ? Json(result.error->what()) : Json());
    iterations.push_back(result.metrics_history.size());
    if (result.metrics.is_object()) add_cells(result.metrics, "", row, size(), metrics);
    if (result.config.is_object()) add_cells(result.config, "config/", row, size(), config);
  }
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  auto add = [&](const std::string& name, const Cells& cells) {
    arrays.push_back(build(cells));
    fields.push_back(arrow::field(name, arrays.back()->type()));
  };
  add("trial", names);
  add("outcome", outcomes);
  errors.push_back("");  // a text also if there is none
  arrays.push_back(build(errors)->Slice(0, static_cast<int64_t>(size())));
  fields.push_back(arrow::field("error", arrow::utf8()));
  add("training_iteration", iterations);
  for (const auto& [name, cells] : metrics) {
    bool is_ours = name == "trial" || name == "outcome" || name == "error";
    if (name != "training_iteration") add(is_ours ? "metrics/" + name : name, cells);
  }
  for (const auto& [name, cells] : config) add(name, cells);
  return arrow::Table::Make(arrow::schema(fields), arrays, static_cast<int64_t>(size()));
}

}  // namespace manta
