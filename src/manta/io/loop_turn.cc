#include "manta/io/eager_wait_internal.h"
#include "manta/io/loop_turn_internal.h"

namespace manta {

void LoopTurn::run() {
  std::unique_lock runs_handlers(runs_handlers_);
  EagerWait eager;
  auto& context = loop_.context;
  while (true) {
    context.poll();
    if (context.stopped()) return;
    if (turn_ == Turn::kTaken) {
      stand_aside(runs_handlers);
      continue;
    }
    auto begin = Clock::now();
    bool found = eager.look(
        [&] { return turn_ == Turn::kTaken || context.poll() > 0 || context.stopped(); });
    if (!found) context.run_one();
    eager.add(Clock::now() - begin);
  }
}

void LoopTurn::stand_aside(std::unique_lock<std::mutex>& runs_handlers) {
  runs_handlers.unlock();
  {
    std::unique_lock lock(mutex_);
    uint64_t seen = 0;
    do {
      seen = turns_;
      left_.wait_for(lock, kLook, [&] { return turn_ == Turn::kOwn; });
    } while (turn_ != Turn::kOwn && turns_ != seen);
  }
  comes_back_ = true;
  runs_handlers.lock();
  comes_back_ = false;
}

void LoopTurn::take() {
  ++turns_;
  turn_ = Turn::kTaken;
}

void LoopTurn::help() {
  if (comes_back_) return;
  std::unique_lock runs_handlers(runs_handlers_, std::try_to_lock);
  if (runs_handlers) loop_.context.poll();
}

void LoopTurn::leave(bool others_follow) {
  if (others_follow) {
    turn_ = Turn::kLeft;
    return;
  }
  {
    std::lock_guard lock(mutex_);
    turn_ = Turn::kOwn;
  }
  left_.notify_one();
}

}  // namespace manta
