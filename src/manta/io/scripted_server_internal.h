#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

/// For tests: a server on the loopback interface that answers each request with the bytes that a
/// function makes of it. One connection at a time.
class ScriptedServer {
 public:
  /// Gets the request, with its body, and returns the answer. If the answer begins with "close:",
  /// the server sends the rest of it and closes the connection. Empty: no answer, for as long as
  /// the server lives.
  using Script = std::function<std::string(const std::string& request)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (!listener_ || ::bind(listener_.get(), any, size) != 0 ||
        ::listen(listener_.get(), 16) != 0 || ::getsockname(listener_.get(), any, &size) != 0)
      throw_errno("listening");
    port_ = ntohs(address.sin_port);
    thread_ = start_thread("a scripted server", [this] { serve(); });
  }
  ~ScriptedServer() {
    ending_ = true;
    thread_.join();
  }

  std::string url() const { return str("http://127.0.0.1:", port_); }
  std::vector<std::string> requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  bool readable(int fd) const {
    pollfd entry{fd, POLLIN, 0};
    while (!ending_) {
      if (::poll(&entry, 1, 20) > 0) return true;
    }
    return false;
  }

  void serve() {
    while (readable(listener_.get())) {
      UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      while (client && answer(client.get())) {
      }
    }
  }

  bool answer(int client) {
    std::string request;
    while (!complete(request)) {
      char buffer[4096];
      if (!readable(client)) return false;
      ssize_t got = ::recv(client, buffer, sizeof(buffer), 0);
      if (got <= 0) return false;
      request.append(buffer, static_cast<size_t>(got));
    }
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    std::string bytes = script_(request);
    if (bytes.empty()) {
      while (!ending_) ::usleep(10'000);
      return false;
    }
    bool closes = bytes.rfind("close:", 0) == 0;
    if (closes) bytes = bytes.substr(6);
    [[maybe_unused]] ssize_t sent = ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return !closes;
  }

  static bool complete(const std::string& request) {
    size_t end = request.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    size_t length = request.find("Content-Length: ");
    size_t body = length < end ? std::stoul(request.substr(length + 16)) : 0;
    return request.size() >= end + 4 + body;
  }

  const Script script_;
  UniqueFd listener_;
  int port_ = 0;
  std::atomic<bool> ending_{false};
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

/// An answer with this body.
inline std::string http_answer(int status, const std::string& body) {
  return str("HTTP/1.1 ", status, " x\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
}

}  // namespace manta
