#pragma once

#include <boost/asio/local/stream_protocol.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/io/async_channel_internal.h"

namespace manta {

/// Accepts connections on a Unix socket for as long as it lives. A connection may send one frame of
/// at most 4 KB, without descriptors, within 10 seconds; 64 such are open at a time. Whoever takes
/// the frame decides what becomes of it. Everything runs with the loop's mutex held.
class UnixListener {
 public:
  /// Gets the first frame. Keeps the channel, after `trust` and another `start`, or throws, and the
  /// connection is closed.
  using OnFirst = std::function<void(const std::shared_ptr<AsyncChannel>&, Frame&)>;

  UnixListener(EventLoop& loop, const std::string& path, OnFirst on_first);
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;

 private:
  void accept();
  void on_connection(UniqueFd socket);

  EventLoop& loop_;
  const std::string path_;
  OnFirst on_first_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  std::vector<std::weak_ptr<AsyncChannel>> strangers_;
  std::unique_ptr<EventLoop::Timer> accept_timer_;
};

}  // namespace manta
