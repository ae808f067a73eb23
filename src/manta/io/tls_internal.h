#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/io/tcp_internal.h"
#include "manta/io/transport_internal.h"

namespace manta {

class TlsSession;

/// The secret that all processes of a run hold, prepared for connections. Make it once: copies
/// share it, and any thread may use it.
///
/// Connections are TLS 1.3 with the token as pre-shared key and a fresh Diffie-Hellman exchange
/// (X25519, AES-128-GCM): both ends prove that they hold the token, recorded traffic stays secret
/// even if the token becomes known later, and it cannot be replayed. There are no certificates, no
/// tickets, no early data. TLS uses only a key made from the token; neither is ever sent. The
/// handshake proves that the peer belongs to this run, not which process it is: the first frame
/// should name its sender and its receiver.
class TlsKey {
 public:
  /// Throws Error(kInvalidArgument) if the token has less than 16 bytes: an attacker who records a
  /// handshake could try out all short tokens. `random_token` makes good ones.
  explicit TlsKey(std::string_view token);

 private:
  friend class TlsSession;
  struct Context;
  std::shared_ptr<const Context> context_;
};

/// Proves on a TCP connection that both ends hold the key. An event loop calls `step` when the
/// socket is ready; `step` throws Error(kCorrupt) if the peer does not hold the key or does not
/// speak the protocol. It takes about half a millisecond of processor time on each side, most of it
/// in one step.
class TlsHandshake final : public Handshake {
 public:
  enum Role { kConnects, kAccepts };

  /// The socket must not block (see `connect_tcp` and `set_tcp_options`).
  TlsHandshake(const TlsKey& key, UniqueFd socket, Role role);
  ~TlsHandshake() override;

  int fd() const override;
  bool step() override;
  short waits_for() const override;
  std::unique_ptr<Transport> finish() override;

 private:
  std::unique_ptr<TlsSession> session_;
};

/// For threads: `connect_tcp` and the handshake. Throws also Error(kTimeout).
std::unique_ptr<Transport> connect_tls(const TlsKey& key, const std::string& host, uint16_t port,
                                       Deadline deadline, const TcpOptions& options = {});
/// For threads: the handshake on a socket that was accepted.
std::unique_ptr<Transport> accept_tls(const TlsKey& key, UniqueFd socket, Deadline deadline,
                                      const TcpOptions& options = {});

}  // namespace manta
