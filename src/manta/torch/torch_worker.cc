#include "manta/torch/torch_worker_internal.h"

namespace manta::train {

void prepare_torch_worker() {
  Session::current("prepare_torch_worker").set_error_text(torch_error_text);
}

std::string torch_error_text(const std::exception& error) {
  std::string text = error.what();
  return text.substr(0, text.find("\nException raised from "));
}

double gradient_weight(const std::optional<data::StepTaken>& step, int world_size) {
  if (!step) return 1;
  return static_cast<double>(step->mine.rows) * world_size / static_cast<double>(step->step.rows);
}

}  // namespace manta::train
