#pragma once

#include <mutex>
#include <thread>

#include "manta/base/names_internal.h"
#include "manta/data/feed_messages_internal.h"
#include "manta/io/frame.h"
#include "manta/io/unique_fd.h"

namespace manta::data {

/// A worker's connection to the reader, as those see it who send. Sending never waits, so that a
/// destructor on any thread may do it: what the socket does not take at once, a thread sends as
/// soon as it does. That thread is there only for so long.
class FeedOutbox {
 public:
  explicit FeedOutbox(UniqueFd socket);
  ~FeedOutbox();  ///< Drops what was not sent: whoever sent it has nothing more to lose.
  FeedOutbox(const FeedOutbox&) = delete;

  int fd() const { return socket_.get(); }

  /// If the reader has gone, nothing happens: whoever reads the socket will see it.
  template <class Message>
  void post(const Message& message) {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    encode_message<ToReader>(out_, message);
    if (!sending_) flush();
  }

  /// Whether messages wait for the socket and no thread sends them, because there was none to be
  /// had. Whoever waits for an answer then waits for the socket to take them, too, and calls
  /// `send_pending`.
  bool pending() {
    std::lock_guard lock(mutex_);
    return !closed_ && !sending_ && !out_.empty();
  }
  void send_pending() {
    std::lock_guard lock(mutex_);
    if (!closed_ && !sending_) flush();
  }

 private:
  void flush();
  void send_when_writable();

  const UniqueFd socket_;
  const UniqueFd stop_;  // an eventfd that ends the thread
  std::mutex mutex_;
  OutBuffer out_;
  bool closed_ = false;
  bool sending_ = false;  // the thread is at it
  std::thread thread_;
};

}  // namespace manta::data
