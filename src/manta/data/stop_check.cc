#include <utility>

#include "manta/data/stop_check_internal.h"

namespace manta::data {
namespace {

thread_local const StopCheck* stop_check_of_thread = nullptr;

}  // namespace

StopCheck::StopCheck(std::function<bool()> stopping)
    : stopping_(std::move(stopping)), before_(stop_check_of_thread) {
  stop_check_of_thread = this;
}

StopCheck::~StopCheck() { stop_check_of_thread = before_; }

bool StopCheck::stopping() { return stop_check_of_thread && stop_check_of_thread->stopping_(); }

std::function<bool()> StopCheck::current() {
  return stop_check_of_thread ? stop_check_of_thread->stopping_ : std::function<bool()>();
}

}  // namespace manta::data
