#include <sched.h>

#include <algorithm>
#include <thread>

#include "manta/base/deadline.h"
#include "manta/io/eager_receiver_internal.h"

namespace manta {

void EagerReceiver::Habit::add(std::chrono::nanoseconds wait) {
  usual_ += (std::min<std::chrono::nanoseconds>(wait, 2 * kMostSpin) - usual_) / 4;
}

// With one processor, whoever looks keeps the peer from sending.
EagerReceiver::EagerReceiver(Channel& channel)
    : channel_(channel), may_look_(std::thread::hardware_concurrency() > 1) {}

bool EagerReceiver::receive(Frame* frame) {
  auto begin = Clock::now();
  IoStatus status = IoStatus::kWouldBlock;
  bool here = may_look_ && habit_.is_short() && look(frame, &status);
  bool open = here ? status == IoStatus::kDone : channel_.receive(frame, Deadline::never());
  habit_.add(Clock::now() - begin);
  return open;
}

// False once it has taken long enough.
bool EagerReceiver::look(Frame* frame, IoStatus* status) {
  Deadline end = Deadline::after(kMostSpin);
  do {
    *status = channel_.try_receive(frame);
    if (*status != IoStatus::kWouldBlock) return true;
    ::sched_yield();  // to whoever needs this processor, maybe the peer
  } while (!end.passed());
  return false;
}

}  // namespace manta
