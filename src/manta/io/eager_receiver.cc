#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "manta/io/eager_receiver_internal.h"

namespace manta {
namespace {

// If giving way takes so long, others need the processor, not only the peer and its peers. Whoever
// looks uses up its share of it, and would wait for its turn when the frame comes; whoever sleeps
// is let in at once.
constexpr std::chrono::microseconds kOthersRan{250};

}  // namespace

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
    for (auto now = begin; status == IoStatus::kWouldBlock && now - begin < kMostSpin;) {
      ::sched_yield();  // to whoever needs this processor, maybe the peer
      status = channel_.try_receive(frame);
      auto before = std::exchange(now, Clock::now());
      if (now - before < kOthersRan) continue;
      habit_ = {};
      break;
    }
  }
  // Not in recvmsg(2): whoever waits there on a Unix socket is also woken, for nothing, when the
  // peer reads what this side has sent, and the peer pays for it before it does anything else.
  while (status == IoStatus::kWouldBlock) {
    channel_.wait_readable(Deadline::never());
    status = channel_.try_receive(frame);
  }
  habit_.add(Clock::now() - begin);
  return status == IoStatus::kDone;
}

}  // namespace manta
