#include <sched.h>

#include <algorithm>
#include <thread>

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
  IoStatus status = channel_.try_receive(frame);
  if (may_look_ && habit_.is_short()) {
    while (status == IoStatus::kWouldBlock && Clock::now() - begin < kMostSpin) {
      ::sched_yield();  // to whoever needs this processor, maybe the peer
      status = channel_.try_receive(frame);
    }
  }
  while (status == IoStatus::kWouldBlock) {
    sleep();
    status = channel_.try_receive(frame);
  }
  habit_.add(Clock::now() - begin);
  return status == IoStatus::kDone;
}

// Not in recvmsg(2): whoever waits there on a Unix socket is also woken, for nothing, when the peer
// reads what this side has sent, and the peer pays for it before it does anything else.
void EagerReceiver::sleep() { channel_.wait_readable(Deadline::never()); }

}  // namespace manta
