#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "manta/io/channel_internal.h"
#include "manta/io/poll_internal.h"
#include "manta/io/tcp_transport_internal.h"
#include "manta/io/tls_internal.h"
#include "manta/io/unix_transport_internal.h"

namespace manta {

/// For tests: a token that is long enough.
inline const std::string kTestToken = "a token of a test, 32 bytes long";

/// For tests: waits for one connection and accepts it.
inline UniqueFd accept_one(int listener) {
  EXPECT_TRUE(poll_until(listener, POLLIN, Deadline::after(std::chrono::seconds(50))));
  return UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

/// For tests: both ends of a TCP connection, with socket buffers as small as `buffer`, if it is
/// given.
inline std::pair<UniqueFd, UniqueFd> tcp_pair(int buffer = 0) {
  UniqueFd listener = listen_tcp("127.0.0.1", 0);
  if (buffer > 0) {
    ::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
    ::setsockopt(listener.get(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
  }
  UniqueFd client = connect_tcp("127.0.0.1", local_address(listener.get()).port,
                                Deadline::after(std::chrono::seconds(50)));
  if (buffer > 0) {
    ::setsockopt(client.get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
    ::setsockopt(client.get(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
  }
  UniqueFd server = accept_one(listener.get());
  set_tcp_options(server.get(), {});
  return {std::move(client), std::move(server)};
}

using TransportPair = std::pair<std::unique_ptr<Transport>, std::unique_ptr<Transport>>;

inline TransportPair unix_pair() {
  auto [left, right] = socket_pair();
  return {std::make_unique<UnixTransport>(std::move(left)),
          std::make_unique<UnixTransport>(std::move(right))};
}

/// For tests: both ends of an encrypted connection, with socket buffers as for `tcp_pair`.
inline TransportPair tls_pair(int buffer = 0) {
  TlsKey key(kTestToken);
  auto [client, server] = tcp_pair(buffer);
  TlsHandshake connects(key, std::move(client), TlsHandshake::kConnects);
  TlsHandshake accepts(key, std::move(server), TlsHandshake::kAccepts);
  for (bool here = false, there = false; !here || !there;) {
    if (!here) here = connects.step();
    if (!there) there = accepts.step();
  }
  return {connects.finish(), accepts.finish()};
}

/// For tests: both ends of a connection that has left TLS.
inline TransportPair plain_pair() {
  auto [client, server] = tls_pair();
  return {leave_tls(*client), leave_tls(*server)};
}

/// For tests that every transport has to pass.
struct TransportKind {
  const char* name;
  TransportPair (*make)();
  bool encrypts = false;
  friend std::ostream& operator<<(std::ostream& out, const TransportKind& kind) {
    return out << kind.name;
  }
};
inline const auto kTransportKinds = testing::Values(
    TransportKind{"unix", unix_pair}, TransportKind{"plain", plain_pair},
    TransportKind{"tls", [] { return tls_pair(); }, true},
    TransportKind{"tls_with_small_buffers", [] { return tls_pair(32 << 10); }, true});
inline std::string name_of_kind(const testing::TestParamInfo<TransportKind>& info) {
  return info.param.name;
}

}  // namespace manta
