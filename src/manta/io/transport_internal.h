#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "manta/io/frame.h"
#include "manta/io/unique_fd.h"

namespace manta::internal {

enum class Blocking { kNo, kYes };

/// The bytes of one connected stream, below frames: a Unix socket (`unix_transport_internal.h`) or
/// TLS over TCP (`tls_internal.h`). It costs one virtual call for each system call, none for each
/// frame.
///
/// One thread at a time may read and one may write; the two may be different threads.
class Transport {
 public:
  struct Moved {
    IoStatus status;
    size_t bytes = 0;  ///< A write may have taken some although its status is kWouldBlock.
  };

  explicit Transport(UniqueFd socket) : socket_(std::move(socket)) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;

  /// For poll(2) and event loops; only the transport reads or writes it.
  int fd() const { return socket_.get(); }
  /// Whether descriptors travel with the bytes: over a Unix socket only.
  virtual bool carries_fds() const = 0;
  /// The other end, for messages: "10.0.0.7:40312", or "a process of this host".
  virtual std::string peer() const = 0;

  /// Receives what is there, at most `into`. kClosed at the end of the stream. Descriptors that
  /// come with the bytes are added to `fds`. Throws Error(kIo) that names the peer when the
  /// connection has broken, Error(kCorrupt) when its bytes are not those that the peer sent.
  virtual Moved read(std::span<char> into, std::deque<UniqueFd>& fds, Blocking blocking) = 0;
  /// Sends without waiting, as much as the socket takes. The descriptors go with the first byte;
  /// there must be none unless `carries_fds`. kClosed if the peer does not read any more.
  virtual Moved write(std::string_view bytes, std::span<const int> fds) = 0;

  /// `read` has more bytes, which poll(2) does not see: read before you wait for the socket.
  bool has_more() const { return has_more_.load(std::memory_order_relaxed); }
  /// The transport holds bytes that the socket did not take: when the socket is writable, call
  /// `write`, with no bytes if there is nothing more to send. A `read` may leave such bytes, too:
  /// TLS answers requests of the peer.
  bool has_unsent() const { return has_unsent_.load(std::memory_order_relaxed); }

 protected:
  const UniqueFd socket_;
  std::atomic<bool> has_more_ = false;
  std::atomic<bool> has_unsent_ = false;
};

/// The steps of a new connection before its bytes are frames. It never waits.
class Handshake {
 public:
  virtual ~Handshake() = default;
  virtual int fd() const = 0;
  /// True: the handshake is complete. False: call it again when the socket has the events of
  /// `waits_for`. Throws Error(kCorrupt) if the peer fails the handshake, Error(kIo) if the
  /// connection ends.
  virtual bool step() = 0;
  /// POLLIN or POLLOUT, for poll(2).
  virtual short waits_for() const = 0;
  /// The stream, once the handshake is complete.
  virtual std::unique_ptr<Transport> finish() = 0;
};

}  // namespace manta::internal
