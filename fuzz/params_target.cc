// params.json of a run folder, with a plan in it.

#include <manta/train/params_internal.h>

#include "target.h"

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
  return {train::params_of(training).dump()};
}

}  // namespace manta::fuzz::params
