// params.json of a run folder, with a plan in it.

#include <manta/train/params_internal.h>

#include "target.h"

namespace manta::fuzz::plan {
std::vector<std::string> seeds();
}

namespace manta::fuzz::params {

void run(std::string_view input) {
  scratch_file("params.json", input);
  train::training_from_params(scratch_folder());
}

std::vector<std::string> seeds() {
  train::Training training;
  training.trainer = "TorchTrainer";
  training.config = {{"lr", 0.1}, {"layers", {1, 2, 3}}};
  training.framework = {{"backend", "shm"}};
  Json params = train::params_of(training);
  std::string without_plan = params.dump();
  params["datasets"]["train"] = {{"explain", "read_parquet: 1 files"},
                                 {"plan", Json::parse(plan::seeds().back())}};
  return {without_plan, params.dump()};
}

}  // namespace manta::fuzz::params
