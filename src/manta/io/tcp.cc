#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/io/poll_internal.h"
#include "manta/io/tcp_internal.h"

namespace manta {
namespace {

constexpr int kTcpBacklog = 4096;  // the kernel caps it at net.core.somaxconn

TcpAddress to_address(const sockaddr* address, socklen_t size) {
  sockaddr_in mapped{};
  auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
    mapped.sin_family = AF_INET;
    mapped.sin_port = v6->sin6_port;
    std::copy_n(v6->sin6_addr.s6_addr + 12, 4, reinterpret_cast<uint8_t*>(&mapped.sin_addr));
    address = reinterpret_cast<const sockaddr*>(&mapped);
    size = sizeof(mapped);
  }
  char host[NI_MAXHOST], port[NI_MAXSERV];
  int error = ::getnameinfo(address, size, host, sizeof(host), port, sizeof(port),
                            NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) {
    throw Error(ErrorKind::kIo, str("reading a socket's address: ", ::gai_strerror(error)));
  }
  return {host, static_cast<uint16_t>(std::stoi(port))};
}

template <class Get>
TcpAddress address_of(int socket, Get get, const char* what) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (get(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) throw_errno(what);
  return to_address(reinterpret_cast<const sockaddr*>(&storage), size);
}

using Resolved = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Resolved resolve(const std::string& host, uint16_t port, int flags, const std::string& what) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  int error = host.empty()
                  ? EAI_NONAME
                  : ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    throw Error(ErrorKind::kIo,
                str(what, ": the host '", host, "' has no address here (",
                    error == EAI_SYSTEM ? errno_text(errno) : ::gai_strerror(error), ")"));
  }
  return Resolved(found, &::freeaddrinfo);
}

void set_option(int socket, int level, int name, int value, const char* what) {
  if (::setsockopt(socket, level, name, &value, sizeof(value)) != 0) {
    throw_errno(str("setting ", what, " of a TCP socket to ", value));
  }
}

UniqueFd new_tcp_socket(int family) {
  UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw_errno("making a TCP socket");
  return socket;
}

// 0, or the errno.
int connect_one(int socket, const addrinfo& to, Deadline deadline) {
  if (::connect(socket, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!poll_until(socket, POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

// An equal part of the time left, for one of `count` attempts.
Deadline part_of(Deadline deadline, size_t count) {
  if (deadline.is_never() || count <= 1) return deadline;
  return Deadline::after((deadline.at() - Clock::now()) / static_cast<long>(count));
}

}  // namespace

std::string TcpAddress::text() const {
  return host.find(':') == std::string::npos ? str(host, ":", port) : str("[", host, "]:", port);
}

TcpAddress parse_address(const std::string& text) {
  size_t colon = text.rfind(':');
  TcpAddress address;
  if (colon != std::string::npos) {
    address.host = text.substr(0, colon);
    if (address.host.starts_with('[') && address.host.ends_with(']')) {
      address.host = address.host.substr(1, address.host.size() - 2);
    }
    const char* end = text.data() + text.size();
    auto [rest, error] = std::from_chars(text.data() + colon + 1, end, address.port);
    if (error == std::errc() && rest == end && !address.host.empty()) return address;
  }
  throw Error(ErrorKind::kInvalidArgument,
              str("'", text, "' is no address: write it as 10.0.0.7:4711 or [fd00::7]:4711"));
}

TcpAddress local_address(int socket) {
  return address_of(socket, ::getsockname, "reading the local address of a TCP socket");
}

TcpAddress peer_address(int socket) {
  return address_of(socket, ::getpeername, "reading the peer's address of a TCP socket");
}

void set_tcp_options(int socket, const TcpOptions& options) {
  if (::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK) != 0) {
    throw_errno("setting a TCP socket to not block");
  }
  auto tcp = [&](int name, auto value, const char* what) {
    set_option(socket, IPPROTO_TCP, name, static_cast<int>(value), what);
  };
  tcp(TCP_NODELAY, 1, "TCP_NODELAY");
  tcp(TCP_KEEPIDLE, options.keepalive_idle.count(), "TCP_KEEPIDLE");
  tcp(TCP_KEEPINTVL, options.keepalive_interval.count(), "TCP_KEEPINTVL");
  tcp(TCP_KEEPCNT, options.keepalive_probes, "TCP_KEEPCNT");
  tcp(TCP_USER_TIMEOUT, options.user_timeout.count(), "TCP_USER_TIMEOUT");
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
}

UniqueFd listen_tcp(const std::string& host, uint16_t port) {
  const std::string what = str("listening on ", TcpAddress{host, port}.text());
  Resolved found = resolve(host, port, AI_PASSIVE, what);
  UniqueFd socket = new_tcp_socket(found->ai_family);
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
  if (found->ai_family == AF_INET6) {
    set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0, "IPV6_V6ONLY");
  }
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), kTcpBacklog) != 0) {
    throw_errno(what);
  }
  return socket;
}

UniqueFd connect_tcp(const std::string& host, uint16_t port, Deadline deadline,
                     const TcpOptions& options) {
  std::string what = str("connecting to ", TcpAddress{host, port}.text());
  Resolved found = resolve(host, port, 0, what);
  size_t left = 0;
  for (auto* each = found.get(); each; each = each->ai_next) ++left;
  int error = 0;
  for (auto* each = found.get(); each; each = each->ai_next, --left) {
    UniqueFd socket = new_tcp_socket(each->ai_family);
    set_tcp_options(socket.get(), options);
    error = connect_one(socket.get(), *each, part_of(deadline, left));
    if (error == 0) return socket;
    std::string number = to_address(each->ai_addr, each->ai_addrlen).text();
    if (number != TcpAddress{host, port}.text()) what += str(" (", number, ")");
    if (deadline.passed()) break;
  }
  bool late = deadline.passed();
  throw Error(late ? ErrorKind::kTimeout : ErrorKind::kIo,
              str(what, ": ", late ? "no answer before the deadline" : errno_text(error)));
}

}  // namespace manta
