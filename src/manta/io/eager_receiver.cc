#include "manta/io/eager_receiver_internal.h"

namespace manta {

bool EagerReceiver::receive(Frame* frame) {
  auto begin = Clock::now();
  IoStatus status = channel_.try_receive(frame);
  auto arrived = [&] { return (status = channel_.try_receive(frame)) != IoStatus::kWouldBlock; };
  // Does not wait in recvmsg(2): there, a thread that waits on a Unix socket is also woken, for
  // nothing, when the peer reads what this side has sent, and the peer pays for that before it does
  // anything else.
  if (status == IoStatus::kWouldBlock && !wait_.look(arrived)) {
    do {
      channel_.wait_readable(Deadline::never());
    } while (!arrived());
  }
  wait_.add(Clock::now() - begin);
  return status == IoStatus::kDone;
}

}  // namespace manta
