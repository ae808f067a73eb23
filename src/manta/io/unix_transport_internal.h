#pragma once

#include "manta/io/transport_internal.h"

namespace manta::internal {

/// Each makes one recvmsg(2) or sendmsg(2), on a Unix socket that the caller owns. With
/// Blocking::kYes it waits if the socket blocks.
Transport::Moved read_unix(int socket, std::span<char> into, std::deque<UniqueFd>& fds,
                           Blocking blocking);
Transport::Moved write_unix(int socket, std::string_view bytes, std::span<const int> fds);

/// The most descriptors of one sendmsg(2); the kernel's SCM_MAX_FD is 253.
inline constexpr size_t kMaxFdsPerMessage = 250;

/// A Unix stream socket between processes of one host.
class UnixTransport final : public Transport {
 public:
  using Transport::Transport;
  bool carries_fds() const override { return true; }
  std::string peer() const override { return "a process of this host"; }
  Moved read(std::span<char> into, std::deque<UniqueFd>& fds, Blocking blocking) override {
    return read_unix(fd(), into, fds, blocking);
  }
  Moved write(std::string_view bytes, std::span<const int> fds) override {
    return write_unix(fd(), bytes, fds);
  }
};

}  // namespace manta::internal
