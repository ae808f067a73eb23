#include <exception>

#include "manta/io/wait_watch_internal.h"

namespace manta {
namespace {

constexpr int kReadTries = 3;

}  // namespace

// Each store releases, so that a reader that sees one of them also sees that the version is odd.
void WaitWatch::enter(const Wait& wait) {
  if (!is_loop()) return;
  uint64_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  kind_.store(wait.kind, std::memory_order_release);
  number_.store(wait.number, std::memory_order_release);
  what_.store(wait.what, std::memory_order_release);
  wait_step_.store(wait.step, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
}

WaitWatch::Seen WaitWatch::read() const {
  Seen seen;
  for (int i = 0; i < kReadTries; ++i) {
    seen.version = version_.load(std::memory_order_acquire);
    seen.wait.kind = kind_.load(std::memory_order_acquire);
    seen.wait.number = number_.load(std::memory_order_acquire);
    seen.wait.what = what_.load(std::memory_order_acquire);
    seen.wait.step = wait_step_.load(std::memory_order_acquire);
    bool whole = seen.version % 2 == 0 && version_.load(std::memory_order_relaxed) == seen.version;
    if (whole && !others_take_part()) return seen;
  }
  seen.wait = {};  // a loop between two waits is in none
  return seen;
}

WaitWatch::Scope::Scope(WaitWatch* watch, const Wait& wait) : watch_(watch) { begin(wait); }

WaitWatch::Scope::Scope(WaitWatch* watch, const char* collective) : watch_(watch) {
  if (!watch) return;
  begin({Wait::kCollective, watch->begin_collective(), collective, watch->step()});
}

void WaitWatch::Scope::begin(const Wait& wait) {
  if (!watch_) return;
  if (!watch_->is_loop() || watch_->in_scope_) {
    watch_ = nullptr;
    return;
  }
  exceptions_ = std::uncaught_exceptions();
  if (exceptions_ == 0) watch_->thrown_from_ = {};  // the loop has caught what threw it out
  watch_->in_scope_ = true;
  watch_->enter(wait);
}

WaitWatch::Scope::~Scope() {
  if (!watch_) return;
  if (std::uncaught_exceptions() > exceptions_) {
    watch_->thrown_from_ = {watch_->kind_, watch_->number_, watch_->what_, watch_->wait_step_};
  }
  watch_->in_scope_ = false;
  watch_->leave();
}

}  // namespace manta
