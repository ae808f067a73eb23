#pragma once

#include <memory>

#include "manta/io/tls_internal.h"
#include "manta/io/transport_internal.h"

namespace manta {

/// A TCP connection without encryption: anybody on its path can read the bytes, and change them.
/// The socket must not block.
class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(UniqueFd socket);

  bool carries_fds() const override { return false; }
  std::string peer() const override { return peer_; }
  Moved read(std::span<char> into, std::deque<UniqueFd>& fds, Blocking blocking) override;
  Moved write(std::string_view bytes, std::span<const int> fds) override;

 private:
  const std::string peer_;
};

/// Goes on without encryption on a connection from `tls_internal.h`, whose ends have proved that
/// they hold the key. Both ends must switch at the same byte, and neither may send before it knows
/// that the other has switched or is about to: TLS reads ahead. Throws Error(kCorrupt) if encrypted
/// bytes are still unread.
std::unique_ptr<Transport> leave_tls(Transport& tls);

}  // namespace manta
