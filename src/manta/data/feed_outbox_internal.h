#pragma once

#include <mutex>
#include <thread>

#include "manta/base/names_internal.h"
#include "manta/data/feed_messages_internal.h"
#include "manta/io/frame.h"
#include "manta/io/unique_fd.h"

namespace manta::data {

/// The sending side of a worker's connection to the reader. Sending never waits, so that a
/// destructor on any thread may send. If the socket does not take a message at once, a thread sends
/// it later; the thread ends when nothing is left to send.
class FeedOutbox {
 public:
  explicit FeedOutbox(UniqueFd socket);
  ~FeedOutbox();  ///< Drops messages that were not sent; they are of no use any more.
  FeedOutbox(const FeedOutbox&) = delete;

  int fd() const { return socket_.get(); }

  /// If the reader has gone, nothing happens: the thread that reads the socket will see it.
  template <class Message>
  void post(const Message& message) {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    encode_message<ToReader>(out_, message);
    if (!sending_) flush();
  }

  /// Whether messages wait for the socket and no thread sends them, because none could be started.
  /// A thread that waits for an answer must then also wait until the socket takes them, and call
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
  bool sending_ = false;  // the thread is sending
  std::thread thread_;
};

}  // namespace manta::data
