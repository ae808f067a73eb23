#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>

#include "manta/base/error_internal.h"
#include "manta/io/http_client_internal.h"

namespace manta {
namespace {

constexpr size_t kLongestHttpHeader = size_t{1} << 20;
constexpr size_t kHttpBuffer = size_t{256} << 10;

bool same_field(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

UniqueFd connect_to(const HttpAddress& address, Deadline deadline) {
  std::string where = str("connecting to http://", address.field);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  int error = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (error != 0) throw Error(ErrorKind::kIo, str(where, ": ", ::gai_strerror(error)));
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  int last_error = ECONNREFUSED;
  for (const addrinfo* each = found; each; each = each->ai_next) {
    UniqueFd fd(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) throw_errno(where);
    int failed = ::connect(fd.get(), each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (failed == EINPROGRESS) {
      pollfd entry{fd.get(), POLLOUT, 0};
      int ready = 0;
      while ((ready = ::poll(&entry, 1, deadline.poll_milliseconds())) < 0 && errno == EINTR) {
      }
      if (ready == 0) throw Error(ErrorKind::kTimeout, str(where, ": no connection in time"));
      socklen_t size = sizeof(failed);
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &size);
    }
    if (failed == 0) {
      int one = 1;
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
      return fd;
    }
    last_error = failed;
  }
  errno = last_error;
  throw_errno(where);
}

}  // namespace

HttpAddress http_address(const std::string& url) {
  auto refuse = [&](const char* why) {
    throw Error(ErrorKind::kInvalidArgument, str("'", url, "' is no address to ask: ", why));
  };
  constexpr std::string_view kScheme = "http://";
  if (url.rfind("https://", 0) == 0)
    refuse("https is not supported; give http://host:port, e.g. that of a proxy that encrypts");
  if (url.rfind(kScheme, 0) != 0) refuse("it must begin with http://");
  if (url.find_first_of(" \r\n\t") != std::string::npos) refuse("it contains white space");
  size_t slash = std::min(url.find('/', kScheme.size()), url.size());
  HttpAddress address;
  address.field = url.substr(kScheme.size(), slash - kScheme.size());
  address.path = slash == url.size() ? "/" : url.substr(slash);
  if (address.field.find('@') != std::string::npos) refuse("it contains a user's name");
  size_t colon = address.field.rfind(':');
  if (colon != std::string::npos && address.field.find(']', colon) != std::string::npos)
    colon = std::string::npos;  // of an IPv6 address
  address.host = address.field.substr(0, colon);
  address.port = colon == std::string::npos ? "80" : address.field.substr(colon + 1);
  if (address.host.size() > 1 && address.host.front() == '[')
    address.host = address.host.substr(1, address.host.size() - 2);
  if (address.host.empty()) refuse("it names no host");
  uint16_t port = 0;
  const char* end = address.port.data() + address.port.size();
  auto parsed = std::from_chars(address.port.data(), end, port);
  if (parsed.ec != std::errc() || parsed.ptr != end || port == 0)
    refuse("its port is no number from 1 to 65535");
  return address;
}

std::string percent_encoded(std::string_view text) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string result;
  for (unsigned char c : text) {
    if (std::isalnum(c) ||
        std::string_view("-._~").find(static_cast<char>(c)) != std::string::npos) {
      result += static_cast<char>(c);
    } else {
      result += {'%', kDigits[c >> 4], kDigits[c & 15]};
    }
  }
  return result;
}

std::string_view HttpClient::Answer::field(std::string_view name) const {
  std::string_view rest = header;
  for (rest.remove_prefix(std::min(rest.find("\r\n"), rest.size())); rest.size() > 2;) {
    rest.remove_prefix(2);
    std::string_view line = rest.substr(0, rest.find("\r\n"));
    rest.remove_prefix(line.size());
    size_t colon = line.find(':');
    if (colon == std::string_view::npos || !same_field(line.substr(0, colon), name)) continue;
    std::string_view value = line.substr(colon + 1);
    size_t begin = value.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return {};
    return value.substr(begin, value.find_last_not_of(" \t") - begin + 1);
  }
  return {};
}

HttpClient::HttpClient(const std::string& url, HttpLimits limits)
    : limits_(limits),
      address_(http_address(url)),
      socket_(connect_to(address_, Deadline::after(limits.timeout))) {}

HttpClient::Answer HttpClient::request(const Request& request) {
  uint64_t size = request.file >= 0 ? request.file_size : request.body.size();
  auto more = std::chrono::seconds(size >> 20);
  Deadline deadline = Deadline::after(limits_.timeout + more);
  bool has_body = size > 0 || (request.method != "GET" && request.method != "HEAD");
  std::string head = str(request.method, " ", request.path.empty() ? address_.path : request.path,
                         " HTTP/1.1\r\nHost: ", address_.field, "\r\n");
  if (has_body) head += str("Content-Length: ", size, "\r\n");
  head += request.fields + "\r\n";
  if (request.file < 0 && size <= kHttpBuffer) {
    head += request.body;
    send(head, deadline);
  } else {
    send(head, deadline);
    if (request.file >= 0) {
      send_file(request.file, size, deadline);
    } else {
      send(request.body, deadline);
    }
  }
  Answer answer;
  do {
    answer = receive(request.method != "HEAD", deadline);
  } while (answer.status == 100);
  return answer;
}

HttpClient::Answer HttpClient::post(const std::string& body, const std::string& fields) {
  Request request;
  request.method = "POST";
  request.fields = fields;
  request.body = body;
  return this->request(request);
}

HttpClient::Answer HttpClient::get(const std::string& path) {
  Request request;
  request.path = path;
  return this->request(request);
}

void HttpClient::send(std::string_view bytes) { send(bytes, Deadline::after(limits_.timeout)); }

HttpClient::Answer HttpClient::receive(bool has_body) {
  return receive(has_body, Deadline::after(limits_.timeout));
}

bool HttpClient::is_closed() {
  Deadline deadline = Deadline::after(limits_.timeout);
  while (fill(deadline)) buffer_.clear();
  return true;
}

void HttpClient::wait(short events, Deadline deadline, const char* doing) {
  pollfd entry{socket_.get(), events, 0};
  int ready = 0;
  while ((ready = ::poll(&entry, 1, deadline.poll_milliseconds())) < 0) {
    if (errno != EINTR) throw_errno(str(doing, " http://", address_.field));
  }
  if (ready == 0) {
    throw Error(ErrorKind::kTimeout,
                str("http://", address_.field, " did not answer within ",
                    static_cast<double>(limits_.timeout.count()) / 1000, " s"));
  }
}

void HttpClient::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    ssize_t size = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      wait(POLLOUT, deadline, "sending to");
      continue;
    }
    if (size < 0) throw_errno(str("sending a request to http://", address_.field));
    bytes.remove_prefix(static_cast<size_t>(size));
  }
}

void HttpClient::send_file(int file, uint64_t size, Deadline deadline) {
  auto buffer = std::make_unique<char[]>(kHttpBuffer);
  while (size > 0) {
    ssize_t got = ::read(file, buffer.get(), std::min<uint64_t>(size, kHttpBuffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("reading a file to send");
    if (got == 0) throw Error(ErrorKind::kIo, "a file to send became shorter on the way");
    send({buffer.get(), static_cast<size_t>(got)}, deadline);
    size -= static_cast<uint64_t>(got);
  }
}

// False if the connection has ended.
bool HttpClient::fill(Deadline deadline) {
  char bytes[64 << 10];
  while (true) {
    wait(POLLIN, deadline, "hearing");
    ssize_t size = ::recv(socket_.get(), bytes, sizeof(bytes), 0);
    if (size < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    if (size > 0) buffer_.append(bytes, static_cast<size_t>(size));
    return size > 0;
  }
}

std::string HttpClient::take(size_t size, Deadline deadline) {
  if (size > limits_.answer_bytes) {
    throw Error(ErrorKind::kCorrupt, str("http://", address_.field, " answers with ", size,
                                         " bytes; at most ", limits_.answer_bytes, " are read"));
  }
  while (buffer_.size() < size) {
    if (!fill(deadline)) throw Error(ErrorKind::kIo, "the connection ended within an answer");
  }
  std::string bytes = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return bytes;
}

std::string HttpClient::take_line(Deadline deadline) {
  size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (buffer_.size() > kLongestHttpHeader)
      throw Error(ErrorKind::kCorrupt, str("http://", address_.field, ": a line without an end"));
    if (!fill(deadline)) throw Error(ErrorKind::kIo, "the connection ended within an answer");
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

std::string HttpClient::receive_chunks(Deadline deadline) {
  std::string body;
  while (true) {
    std::string line = take_line(deadline);
    size_t size = 0;
    auto parsed = std::from_chars(line.data(), line.data() + line.size(), size, 16);
    bool ends = parsed.ptr == line.data() + line.size() || *parsed.ptr == ';' || *parsed.ptr == ' ';
    if (parsed.ec != std::errc() || !ends || size > limits_.answer_bytes - body.size())
      throw Error(ErrorKind::kCorrupt,
                  str("http://", address_.field, " answers with a chunk of size '", line, "'"));
    if (size == 0) break;
    body += take(size, deadline);
    if (!take_line(deadline).empty())
      throw Error(ErrorKind::kCorrupt, str("http://", address_.field, ": a chunk without an end"));
  }
  while (!take_line(deadline).empty()) {
  }
  return body;
}

HttpClient::Answer HttpClient::receive(bool has_body, Deadline deadline) {
  auto nonsense = [&] {
    throw Error(ErrorKind::kCorrupt, str("http://", address_.field, " does not speak HTTP: '",
                                         buffer_.substr(0, 40), "'"));
  };
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    constexpr std::string_view kStart = "HTTP/1.";
    std::string_view start = std::string_view(buffer_).substr(0, kStart.size());
    if (start != kStart.substr(0, start.size()) || buffer_.size() > kLongestHttpHeader) nonsense();
    if (!fill(deadline)) throw Error(ErrorKind::kIo, "the connection ended before an answer");
  }
  Answer answer;
  auto parsed = std::from_chars(buffer_.data() + std::min<size_t>(9, end), buffer_.data() + end,
                                answer.status);
  if (buffer_.rfind("HTTP/1.", 0) != 0 || parsed.ec != std::errc()) nonsense();
  answer.header = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  if (!has_body || answer.status / 100 == 1 || answer.status == 204 || answer.status == 304)
    return answer;
  std::string_view length = answer.field("Content-Length");
  if (same_field(answer.field("Transfer-Encoding"), "chunked")) {
    answer.body = receive_chunks(deadline);
  } else if (!length.empty()) {
    size_t size = 0;
    auto number = std::from_chars(length.data(), length.data() + length.size(), size);
    if (number.ec != std::errc() || number.ptr != length.data() + length.size())
      throw Error(ErrorKind::kCorrupt,
                  str("http://", address_.field, " answers with '", length, "' bytes"));
    answer.body = take(size, deadline);
  } else if (same_field(answer.field("Connection"), "close")) {
    while (fill(deadline) && buffer_.size() <= limits_.answer_bytes) {
    }
    answer.body = take(buffer_.size(), deadline);
  }
  return answer;
}

}  // namespace manta
