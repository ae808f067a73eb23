#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/io/frame.h"
#include "manta/io/transport_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

/// A framed connection for ordinary threads: one reads, any number write.
class Channel {
 public:
  explicit Channel(std::unique_ptr<Transport> transport, size_t max_body = kMaxFrameBody);
  /// Over a Unix socket.
  explicit Channel(UniqueFd socket, size_t max_body = kMaxFrameBody);

  int fd() const { return transport_->fd(); }
  std::string peer() const { return transport_->peer(); }

  /// The next frame; false if the peer has closed. Throws Error(kTimeout) once the deadline has
  /// passed, Error(kCorrupt) on malformed bytes. One thread at a time.
  bool receive(Frame* frame, Deadline deadline);
  /// Like receive, but takes only a frame that is already there: kWouldBlock if there is none.
  IoStatus try_receive(Frame* frame);
  /// Waits until `try_receive` may have something. False once the deadline has passed.
  bool wait_readable(Deadline deadline);
  /// Takes a frame that was already received, without reading the socket; false if there is none.
  bool next_buffered(Frame* frame) { return decoder_.next(frame); }

  /// Lets `fill` add frames, and writes them before it returns. False if the peer has closed. A
  /// peer that takes nothing for 60 s counts as closed.
  bool send(const std::function<void(OutBuffer&)>& fill);
  /// Like send, but never waits. If another thread is sending, or the peer has not taken what was
  /// sent before, it returns false and adds nothing. The next call of `send` or `try_send` sends
  /// what the socket does not take now.
  bool try_send(const std::function<void(OutBuffer&)>& fill);

 private:
  std::unique_ptr<Transport> transport_;
  FrameDecoder decoder_;
  std::mutex send_mutex_;
  OutBuffer out_;
};

/// Connects to a Unix socket. Throws Error(kIo) that names the path. The path may have any length,
/// its last part at most 80 characters.
UniqueFd connect_unix(const std::string& path);
/// Listens on a new Unix socket; only this user may connect. Throws Error(kIo) if the path exists.
UniqueFd listen_unix(const std::string& path);
/// Two connected Unix stream sockets, closed on exec.
std::pair<UniqueFd, UniqueFd> socket_pair();

}  // namespace manta
