#pragma once

#include <arrow/api.h>

#include <string>
#include <vector>

#include "manta/base/temporary_folder_internal.h"
#include "manta/data/sources.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/xgboost/xgboost_trainer.h"

namespace manta {

/// For tests: the breast cancer table of examples/data, 569 rows.
inline Dataset breast_cancer() {
  return data::read_csv(std::string(MANTA_EXAMPLE_DATA) + "/breast_cancer.csv");
}

/// Runs in a temporary folder, which print nothing.
class XGBoostRuns {
 public:
  XGBoostTrainerOptions options(int workers, std::map<std::string, Dataset> datasets) {
    XGBoostTrainerOptions options;
    options.params = {{"objective", "binary:logistic"}, {"eval_metric", {"logloss", "error"}}};
    options.label_column = "target";
    options.datasets = std::move(datasets);
    options.scaling_config = {.num_workers = workers, .resources_per_worker = {.cpus = 0.25}};
    options.run_config = {
        .name = "run-" + std::to_string(runs_++), .storage_path = folder_.path(), .verbose = false};
    return options;
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  int runs_ = 0;
};

/// A column of float32.
inline std::vector<float> floats(const arrow::Table& table, const std::string& name) {
  std::vector<float> values;
  for (const auto& chunk : table.GetColumnByName(name)->chunks()) {
    const auto& array = static_cast<const arrow::FloatArray&>(*chunk);
    values.insert(values.end(), array.raw_values(), array.raw_values() + array.length());
  }
  return values;
}

}  // namespace manta
