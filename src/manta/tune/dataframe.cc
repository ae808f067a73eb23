#include <arrow/api.h>

#include "manta/train/controller_internal.h"
#include "manta/train/json_columns_internal.h"
#include "manta/tune/result_grid.h"
#include "manta/tune/trials_internal.h"

namespace manta {

using train::add_cells;
using train::array_of;
using train::Cells;
using train::Columns;

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
    arrays.push_back(array_of(cells));
    fields.push_back(arrow::field(name, arrays.back()->type()));
  };
  add("trial", names);
  add("outcome", outcomes);
  errors.push_back("");  // a text, even if there is no error
  arrays.push_back(array_of(errors)->Slice(0, static_cast<int64_t>(size())));
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
