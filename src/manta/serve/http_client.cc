#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <charconv>

#include "manta/base/error_internal.h"
#include "manta/serve/http_client_internal.h"
#include "manta/serve/request.h"

namespace manta::serve {
namespace {

constexpr int kDeadlineMilliseconds = 30'000;

}  // namespace

HttpClient::HttpClient(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  size_t slash = url.find('/', kScheme.size());
  host_ = url.substr(kScheme.size(), slash - kScheme.size());
  path_ = slash == std::string::npos ? "/" : url.substr(slash);
  size_t colon = host_.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(host_.substr(colon + 1))));
  if (::inet_pton(AF_INET, host_.substr(0, colon).c_str(), &address.sin_addr) != 1) {
    throw Error(ErrorKind::kInvalidArgument, str("no address in '", url, "'"));
  }
  socket_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket_ ||
      ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    throw_errno(str("connecting to ", url));
  }
  int one = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

HttpClient::Answer HttpClient::post(const std::string& body, const std::string& extra_fields) {
  send(str("POST ", path_, " HTTP/1.1\r\nHost: ", host_, "\r\nContent-Length: ", body.size(),
           "\r\n", extra_fields, "\r\n", body));
  return receive();
}

HttpClient::Answer HttpClient::get(const std::string& path) {
  send(str("GET ", path, " HTTP/1.1\r\nHost: ", host_, "\r\n\r\n"));
  return receive();
}

void HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t size = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw_errno("sending a request");
    bytes.remove_prefix(static_cast<size_t>(size));
  }
}

// False if the connection has ended.
bool HttpClient::fill() {
  pollfd entry{socket_.get(), POLLIN, 0};
  if (::poll(&entry, 1, kDeadlineMilliseconds) == 0) {
    throw Error(ErrorKind::kTimeout, "no answer within 30 s");
  }
  char bytes[64 << 10];
  ssize_t size = ::recv(socket_.get(), bytes, sizeof(bytes), 0);
  if (size > 0) buffer_.append(bytes, static_cast<size_t>(size));
  return size > 0;
}

HttpClient::Answer HttpClient::receive(bool has_body) {
  size_t end;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) throw Error(ErrorKind::kIo, "the connection ended before an answer");
  }
  Answer answer;
  answer.header = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  answer.status = std::stoi(answer.header.substr(9, 3));
  Request fields;
  fields.fields = std::string_view(answer.header).substr(answer.header.find("\r\n") + 2);
  std::string_view length = fields.header("Content-Length");
  size_t size = 0;
  std::from_chars(length.data(), length.data() + length.size(), size);
  if (!has_body || answer.status == 100) return answer;
  while (buffer_.size() < size) {
    if (!fill()) throw Error(ErrorKind::kIo, "the connection ended within an answer");
  }
  answer.body = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return answer;
}

bool HttpClient::is_closed() {
  while (fill()) {
  }
  return true;
}

}  // namespace manta::serve
