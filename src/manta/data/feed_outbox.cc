#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>

#include "manta/base/error_internal.h"
#include "manta/data/feed_outbox_internal.h"

namespace manta::data {

FeedOutbox::FeedOutbox(UniqueFd socket)
    : socket_(std::move(socket)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) throw_errno("eventfd");
}

FeedOutbox::~FeedOutbox() {
  ::eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

// With the lock held.
void FeedOutbox::flush() {
  IoStatus status = out_.flush(socket_.get());
  if (status == IoStatus::kClosed) closed_ = true;
  if (status != IoStatus::kWouldBlock) return;
  if (thread_.joinable()) thread_.join();  // it has announced that it sends no more, and ends
  try {
    thread_ = std::thread([this] { send_when_writable(); });
    sending_ = true;
  } catch (const std::system_error&) {  // no more threads: see pending()
  }
}

void FeedOutbox::send_when_writable() {
  while (true) {
    pollfd polled[] = {{socket_.get(), POLLOUT, 0}, {stop_.get(), POLLIN, 0}};
    int ready = ::poll(polled, 2, -1);
    bool stop = (ready < 0 && errno != EINTR) || polled[1].revents != 0;
    std::lock_guard lock(mutex_);
    try {
      if (ready > 0 && !stop) {
        IoStatus status = out_.flush(socket_.get());
        closed_ = status == IoStatus::kClosed;
        stop = status != IoStatus::kWouldBlock;
      }
    } catch (const Error&) {
      closed_ = stop = true;
    }
    if (!stop) continue;
    sending_ = false;
    return;
  }
}

}  // namespace manta::data
