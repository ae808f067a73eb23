#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "manta/io/transport_pair_internal.h"

namespace manta {

/// For tests: stands between a client, which connects once, and a server; it may keep, cut off or
/// change what they send.
class TcpProxy {
 public:
  /// Maps the bytes that arrived to those that are passed on; with `false` they are the last.
  using Change = std::function<std::pair<std::string, bool>(std::string bytes)>;
  static std::pair<std::string, bool> nothing(std::string bytes) { return {bytes, true}; }

  /// `of_client` changes what the client sends.
  TcpProxy(uint16_t to, Change of_client, Change of_server = nothing)
      : listener_(listen_tcp("127.0.0.1", 0)),
        port_(local_address(listener_.get()).port),
        changes_{std::move(of_client), std::move(of_server)},
        thread_([this, to] {
          UniqueFd client = accept_one(listener_.get());
          UniqueFd server = connect_tcp("127.0.0.1", to, Deadline::after(std::chrono::seconds(50)));
          while (forward(client.get(), server.get())) continue;
        }) {}
  ~TcpProxy() {
    if (thread_.joinable()) thread_.join();
  }

  uint16_t port() const { return port_; }
  /// Everything that the client has sent, once it has closed.
  const std::string& recorded() {
    if (thread_.joinable()) thread_.join();
    return recorded_[0];
  }
  /// The same for the server.
  const std::string& recorded_of_server() {
    recorded();
    return recorded_[1];
  }

 private:
  bool forward(int client, int server) {
    pollfd ends[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    if (::poll(ends, 2, 50'000) <= 0) return false;
    char bytes[4096];
    for (int i = 0; i < 2; ++i) {
      if (ends[i].revents == 0) continue;
      ssize_t got = ::recv(ends[i].fd, bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got <= 0) return false;
      std::string text(bytes, static_cast<size_t>(got));
      recorded_[i] += text;
      auto [changed, go_on] = changes_[i](text);
      if (!send_all(ends[1 - i].fd, changed) || !go_on) return false;
    }
    return true;
  }
  static bool send_all(int to, std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) return false;
      if (sent < 0 && !poll_until(to, POLLOUT, Deadline::after(std::chrono::seconds(50)))) {
        return false;
      }
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  UniqueFd listener_;
  uint16_t port_;
  Change changes_[2];
  std::string recorded_[2];
  std::thread thread_;
};

}  // namespace manta
