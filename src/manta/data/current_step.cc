#include "manta/data/current_step_internal.h"

namespace manta::data {

void CurrentStep::set(const void* loop, const StepTaken& step) {
  std::lock_guard lock(mutex_);
  std::erase_if(loops_, [&](const auto& each) { return each.first == loop; });
  loops_.emplace_back(loop, step);
}

void CurrentStep::forget(const void* loop) {
  std::lock_guard lock(mutex_);
  std::erase_if(loops_, [&](const auto& each) { return each.first == loop; });
}

std::optional<StepTaken> CurrentStep::get() const {
  std::lock_guard lock(mutex_);
  if (loops_.empty()) return std::nullopt;
  return loops_.back().second;
}

}  // namespace manta::data
