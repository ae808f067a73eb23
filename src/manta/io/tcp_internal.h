#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

/// When a connection counts as broken whose other end was cut off without a word: a dead host, a
/// cable. While nothing is under way the kernel asks (keepalive): after 4 s with the defaults. A
/// process that is alive, however busy, or stopped by a debugger, is not concerned: its kernel
/// answers.
///
/// The kernel does not ask while sent data is not acknowledged, and cannot ask when an interface of
/// this host is switched off; then it gives up after minutes, or never. So whoever must know
/// expects answers within a time, or sets `user_timeout`.
struct TcpOptions {
  std::chrono::seconds keepalive_idle{1};      ///< Silence before the first question.
  std::chrono::seconds keepalive_interval{1};  ///< Between questions.
  int keepalive_probes = 3;                    ///< Unanswered questions that end the connection.
  /// Ends the connection when data is not acknowledged for so long; 0: never. It then replaces
  /// `keepalive_probes`. Only for a peer that reads at all times: to Linux, one that leaves its
  /// socket full for so long is dead as well, although its kernel answers.
  std::chrono::milliseconds user_timeout{0};
};

/// An end of a TCP connection, as numbers: names need not resolve on other hosts.
struct TcpAddress {
  std::string host;  ///< "10.0.0.7" or "fd00::7".
  uint16_t port = 0;

  /// "10.0.0.7:4711", "[fd00::7]:4711".
  std::string text() const;
};
/// The other way round. Throws Error(kInvalidArgument) if it is neither.
TcpAddress parse_address(const std::string& text);

/// The end of a socket that is here: for a listening one, what to connect to.
TcpAddress local_address(int socket);
/// The other end, as this host sees it: an address that reaches it from here, and what others
/// should be told.
TcpAddress peer_address(int socket);

/// Listens on one address of this host: an IPv4 or IPv6 address, or a name. Port 0 takes a free
/// one; see `local_address`. Throws Error(kIo) that names the address.
UniqueFd listen_tcp(const std::string& host, uint16_t port);

/// Connects to the first of the addresses of `host` that answers; each gets its part of the time
/// that is left. The socket does not block, and sends small messages at once (TCP_NODELAY). Throws
/// Error(kTimeout) or Error(kIo) that names the address. (Resolving a name has the limits of the
/// system's resolver; a numeric address takes no time.)
UniqueFd connect_tcp(const std::string& host, uint16_t port, Deadline deadline,
                     const TcpOptions& options = {});

/// For a socket that was accepted: does not block, and the options as above.
void set_tcp_options(int socket, const TcpOptions& options);

}  // namespace manta
