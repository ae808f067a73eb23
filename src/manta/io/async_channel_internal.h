#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/event_loop_internal.h"
#include "manta/io/frame.h"
#include "manta/io/transport_internal.h"

namespace manta {

/// A framed connection of an event loop. All calls and all callbacks are made with the loop's mutex
/// held. Everything sent during one turn of the loop leaves in one system call.
class AsyncChannel : public std::enable_shared_from_this<AsyncChannel> {
 public:
  using OnFrame = std::function<void(Frame&)>;
  /// Called once, with the reason; empty when the peer closed in good order.
  using OnClose = std::function<void(const std::string& why)>;

  /// `max_body` and `takes_fds` as for FrameDecoder, until `trust` is called.
  AsyncChannel(EventLoop& loop, std::unique_ptr<Transport> transport, size_t max_body,
               bool takes_fds = true);
  /// Over a Unix socket.
  AsyncChannel(EventLoop& loop, UniqueFd socket, size_t max_body, bool takes_fds = true);
  ~AsyncChannel();

  /// Begins to read. Called again, it only replaces the callbacks.
  void start(OnFrame on_frame, OnClose on_close);
  /// A frame for the caller to fill with OutBuffer::begin and end, flushed soon.
  OutBuffer& out();
  /// The same, for a caller that calls `flush` itself when it has filled it.
  OutBuffer& out_to_flush() { return out_; }
  /// Writes now as much of the pending bytes as the socket takes, for a peer that waits for them.
  /// The loop's thread sends the rest. Never waits.
  void flush();
  /// Calls `then` once, from the loop, when the socket has taken everything that is pending: a
  /// sender of much data learns from it when to go on. `then` is not called if the connection
  /// closes before. A second call replaces the first.
  void when_sent(std::function<void()> then);
  /// The peer takes nothing any more: what was not flushed will never reach it.
  bool broken() const { return broken_ || !socket_.is_open(); }
  /// Until `resume`, the channel hands out no frame, not even one that it has received, and reads
  /// nothing, so that the peer has to wait.
  void pause() { paused_ = true; }
  void resume();
  /// Handles at once everything that has arrived, even while paused. For a peer that is known to
  /// have ended.
  void drain();
  /// Drops the connection; no callback comes after it.
  void close();
  /// Writes what is pending, as far as the socket takes it, then closes.
  void flush_and_close();
  void trust() { decoder_.trust(); }
  /// Gives the connection to a thread that goes on without frames (see `bulk_internal.h`), and
  /// closes the channel without a callback. Throws Error(kCorrupt) if the peer has already sent
  /// more.
  std::unique_ptr<Transport> take_transport();
  /// The other end, as Transport::peer, also once it is closed.
  const std::string& peer() const { return peer_; }

 private:
  void wait_readable();
  void wait_writable();
  void on_readable();
  bool read_frames(int max_reads);
  bool hand_out();
  void fail(const std::string& why);
  void tell_sent();

  EventLoop& loop_;
  std::unique_ptr<Transport> transport_;
  const std::string peer_;
  boost::asio::posix::stream_descriptor socket_;  // the transport's, watched by the loop
  FrameDecoder decoder_;
  OutBuffer out_;
  OnFrame on_frame_;
  OnClose on_close_;
  std::function<void()> when_sent_;
  bool flush_posted_ = false;
  bool waiting_writable_ = false;
  bool drained_ = false;
  bool started_ = false;
  bool broken_ = false;
  bool paused_ = false;
  bool draining_ = false;
  bool waiting_readable_ = false;
};

}  // namespace manta
