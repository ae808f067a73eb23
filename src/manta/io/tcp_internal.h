#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

/// When a connection counts as broken if its other end disappears without closing it: a dead host,
/// an unplugged cable. While no data is under way, the kernel sends keepalive probes; with the
/// defaults it gives up after 4 s. A process that is alive, however busy, or stopped by a debugger,
/// is not affected: its kernel answers the probes.
///
/// The kernel sends no probes while sent data is not acknowledged, and cannot send them when an
/// interface of this host is switched off; then it gives up after minutes, or never. So code that
/// must know expects answers within a time, or sets `user_timeout`.
struct TcpOptions {
  std::chrono::seconds keepalive_idle{1};      ///< Silence before the first probe.
  std::chrono::seconds keepalive_interval{1};  ///< Between probes.
  int keepalive_probes = 3;                    ///< Unanswered probes that end the connection.
  /// Ends the connection when data is not acknowledged for this time; 0: never. If set, it replaces
  /// `keepalive_probes`. Only for a peer that always reads: Linux also ends the connection of a
  /// peer that leaves its socket full for this time, although its kernel answers.
  std::chrono::milliseconds user_timeout{0};
};

/// An end of a TCP connection, as numbers: names need not resolve on other hosts.
struct TcpAddress {
  std::string host;  ///< "10.0.0.7" or "fd00::7".
  uint16_t port = 0;

  /// "10.0.0.7:4711", "[fd00::7]:4711".
  std::string text() const;
};
/// Parses what `text` returns. Throws Error(kInvalidArgument) if it is in neither form.
TcpAddress parse_address(const std::string& text);

/// The local end of a socket; for a listening socket, the address to connect to.
TcpAddress local_address(int socket);
/// The other end, as this host sees it: an address that reaches it from here, and that others
/// should be told.
TcpAddress peer_address(int socket);

/// Listens on one address of this host: an IPv4 or IPv6 address, or a name. Port 0 takes a free
/// one; see `local_address`. Throws Error(kIo) that names the address.
UniqueFd listen_tcp(const std::string& host, uint16_t port);

/// Connects to the first of the addresses of `host` that answers; each attempt gets an equal part
/// of the time that is left. The socket does not block, and sends small messages at once
/// (TCP_NODELAY). Throws Error(kTimeout) or Error(kIo) that names the address. (Resolving a name
/// has the limits of the system's resolver; a numeric address takes no time.)
UniqueFd connect_tcp(const std::string& host, uint16_t port, Deadline deadline,
                     const TcpOptions& options = {});

/// For an accepted socket: makes it not block, and sets the options as above.
void set_tcp_options(int socket, const TcpOptions& options);

}  // namespace manta
