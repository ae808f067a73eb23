#include <fcntl.h>
#include <poll.h>

#include <mutex>

#include "manta/base/error_internal.h"
#include "manta/io/poll_internal.h"
#include "manta/io/tcp_transport_internal.h"
#include "manta/io/tls_session_internal.h"

namespace manta {
namespace {

class TlsTransport final : public Transport {
 public:
  explicit TlsTransport(std::unique_ptr<TlsSession> session)
      : Transport(session->take_socket()), session_(std::move(session)) {
    tell();
  }

  bool carries_fds() const override { return false; }
  std::string peer() const override { return session_->peer(); }

  Moved read(std::span<char> into, std::deque<UniqueFd>&, Blocking blocking) override {
    while (true) {
      Moved moved = locked([&] { return session_->read(into); });
      if (moved.status != IoStatus::kWouldBlock || blocking == Blocking::kNo) return moved;
      auto events = static_cast<short>(has_unsent() ? POLLIN | POLLOUT : POLLIN);
      poll_until(fd(), events, Deadline::never());
    }
  }
  Moved write(std::string_view bytes, std::span<const int> fds) override {
    MANTA_CHECK(fds.empty(), "descriptors do not travel between hosts");
    return locked([&] { return session_->write(bytes); });
  }
  UniqueFd leave() {
    std::lock_guard lock(mutex_);
    if (!session_->abandon()) {
      throw Error(ErrorKind::kCorrupt, str("encryption of the connection with ", peer(),
                                           " cannot end here: it has encrypted bytes"));
    }
    UniqueFd socket(::fcntl(fd(), F_DUPFD_CLOEXEC, 0));
    if (!socket) throw_errno("duplicating a socket");
    return socket;
  }

 private:
  // OpenSSL does not let one thread read while another writes.
  template <class F>
  Moved locked(const F& f) {
    std::lock_guard lock(mutex_);
    Moved moved = f();
    tell();
    return moved;
  }
  void tell() {
    has_more_.store(session_->has_more(), std::memory_order_relaxed);
    has_unsent_.store(session_->has_unsent(), std::memory_order_relaxed);
  }

  std::mutex mutex_;
  std::unique_ptr<TlsSession> session_;
};

std::unique_ptr<Transport> shake_hands(const TlsKey& key, UniqueFd socket, TlsHandshake::Role role,
                                       Deadline deadline) {
  std::string peer = peer_address(socket.get()).text();
  TlsHandshake handshake(key, std::move(socket), role);
  while (!handshake.step()) {
    if (!poll_until(handshake.fd(), handshake.waits_for(), deadline)) {
      throw Error(ErrorKind::kTimeout,
                  str(peer, " did not complete the handshake before the deadline"));
    }
  }
  return handshake.finish();
}

}  // namespace

std::unique_ptr<Transport> leave_tls(Transport& tls) {
  return std::make_unique<TcpTransport>(dynamic_cast<TlsTransport&>(tls).leave());
}

TlsHandshake::TlsHandshake(const TlsKey& key, UniqueFd socket, Role role)
    : session_(std::make_unique<TlsSession>(key, std::move(socket), role)) {}

TlsHandshake::~TlsHandshake() = default;

int TlsHandshake::fd() const { return session_->fd(); }

bool TlsHandshake::step() { return session_->handshake() == IoStatus::kDone; }

short TlsHandshake::waits_for() const { return session_->has_unsent() ? POLLOUT : POLLIN; }

std::unique_ptr<Transport> TlsHandshake::finish() {
  return std::make_unique<TlsTransport>(std::move(session_));
}

std::unique_ptr<Transport> connect_tls(const TlsKey& key, const std::string& host, uint16_t port,
                                       Deadline deadline, const TcpOptions& options) {
  return shake_hands(key, connect_tcp(host, port, deadline, options), TlsHandshake::kConnects,
                     deadline);
}

std::unique_ptr<Transport> accept_tls(const TlsKey& key, UniqueFd socket, Deadline deadline,
                                      const TcpOptions& options) {
  set_tcp_options(socket.get(), options);
  return shake_hands(key, std::move(socket), TlsHandshake::kAccepts, deadline);
}

}  // namespace manta
