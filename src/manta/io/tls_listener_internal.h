#pragma once

#include <string>

#include "manta/io/listener_internal.h"
#include "manta/io/tls_internal.h"

namespace manta {

struct TlsListenerOptions {
  TcpOptions tcp = {};
  AdmissionLimits limits = {};
};

/// A Listener on a TCP address: each connection proves by a TLS handshake that it belongs to this
/// run before it sends a frame (see TlsKey). The strangers of AdmissionLimits are counted for each
/// address of a host. A handshake takes about half a millisecond of processor time, so 1,000 peers
/// that come at once have joined within about a second.
class TlsListener : public Listener {
 public:
  /// `socket` is what `listen_tcp` returns.
  TlsListener(EventLoop& loop, const TlsKey& key, UniqueFd socket, OnFirst on_first,
              const TlsListenerOptions& options = {});

  /// The address to connect to.
  const TcpAddress& address() const { return address_; }

 private:
  TlsListener(EventLoop& loop, std::unique_ptr<Acceptor> acceptor, const AdmissionLimits& limits,
              OnFirst on_first);

  const TcpAddress address_;
};

}  // namespace manta
