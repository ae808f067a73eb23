#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/train/messages_internal.h"
#include "manta/train/reader_threads_internal.h"

namespace manta::train {
namespace {

// A driver that stands still should not hold up the workers for longer.
constexpr std::chrono::seconds kThreadsDeadline{5};

}  // namespace

int ReaderThreads::now() {
  std::lock_guard lock(mutex_);
  bool there =
      channel_->send([](OutBuffer& out) { encode_message<FromMember>(out, WantThreads{}); });
  Deadline deadline = Deadline::after(kThreadsDeadline);
  if (!there || !channel_->wait_readable(deadline)) return last_;
  Frame frame;
  if (!channel_->receive(&frame, deadline)) return last_;  // this group is being ended
  auto message = decode_message<ToMember>(frame);
  auto* use = std::get_if<UseThreads>(&message);
  if (!use) throw Error(ErrorKind::kCorrupt, "the driver does not say how many threads to use");
  return last_ = std::max(1, use->threads);
}

}  // namespace manta::train
