#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "manta/base/error_internal.h"
#include "manta/io/poll_internal.h"
#include "manta/io/tcp_transport_internal.h"

namespace manta {

TcpTransport::TcpTransport(UniqueFd socket)
    : Transport(std::move(socket)), peer_(peer_address(fd()).text()) {}

Transport::Moved TcpTransport::read(std::span<char> into, std::deque<UniqueFd>&,
                                    Blocking blocking) {
  while (true) {
    ssize_t received = ::recv(fd(), into.data(), into.size(), MSG_DONTWAIT);
    if (received > 0) return {IoStatus::kDone, static_cast<size_t>(received)};
    if (received == 0 || errno == ECONNRESET) return {IoStatus::kClosed};
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) throw_errno(str("reading from ", peer_));
    if (blocking == Blocking::kNo) return {IoStatus::kWouldBlock};
    poll_until(fd(), POLLIN, Deadline::never());
  }
}

Transport::Moved TcpTransport::write(std::string_view bytes, std::span<const int> fds) {
  MANTA_CHECK(fds.empty(), "descriptors do not travel between hosts");
  while (true) {
    ssize_t sent = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return {IoStatus::kDone, static_cast<size_t>(sent)};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {IoStatus::kWouldBlock};
    if (errno == EPIPE || errno == ECONNRESET) return {IoStatus::kClosed};
    if (errno != EINTR) throw_errno(str("writing to ", peer_));
  }
}

}  // namespace manta
