#include "http_post.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace {

constexpr timeval kPatience{10, 0};  // timeout of each step

struct Url {
  std::string host, port, path;
};

Url parse(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  size_t colon = url.find(':', kScheme.size());
  size_t slash = url.find('/', kScheme.size());
  if (!url.starts_with(kScheme) || slash == std::string::npos || colon > slash) {
    throw std::runtime_error("'" + url + "' is not like http://host:port/path");
  }
  return {url.substr(kScheme.size(), colon - kScheme.size()),
          url.substr(colon + 1, slash - colon - 1), url.substr(slash)};
}

class Connection {
 public:
  explicit Connection(const Url& url) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (int error = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found)) {
      throw std::runtime_error(url.host + ": " + ::gai_strerror(error));
    }
    std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> address(found, ::freeaddrinfo);
    socket_ = ::socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0);
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
    if (::connect(socket_, found->ai_addr, found->ai_addrlen) == 0) return;
    std::system_error failure(errno, std::generic_category(), "connect");
    ::close(socket_);
    throw failure;
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;

  void write(std::string_view text) {
    while (!text.empty()) {
      ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0) throw std::system_error(errno, std::generic_category(), "send");
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  /// Until the server closes the connection.
  std::string read_all() {
    std::string text;
    char part[4096];
    while (ssize_t size = ::recv(socket_, part, sizeof(part), 0)) {
      if (size < 0) throw std::system_error(errno, std::generic_category(), "recv");
      text.append(part, static_cast<size_t>(size));
    }
    return text;
  }

 private:
  int socket_ = -1;
};

}  // namespace

std::string http_post(const std::string& url, const std::string& body) {
  Url to = parse(url);
  Connection connection(to);
  connection.write("POST " + to.path + " HTTP/1.1\r\nHost: " + to.host + ":" + to.port +
                   "\r\nContent-Type: application/json\r\nContent-Length: " +
                   std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body);
  std::string answer = connection.read_all();
  size_t head = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.1 ") || head == std::string::npos) {
    throw std::runtime_error(url + ": the answer is not HTTP: '" + answer.substr(0, 80) + "'");
  }
  std::string status = answer.substr(9, 3), answered = answer.substr(head + 4);
  if (status != "200") throw std::runtime_error(url + ": status " + status + ": " + answered);
  return answered;
}
