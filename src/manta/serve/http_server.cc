#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/serve/http_connection_internal.h"
#include "manta/serve/http_server_internal.h"
#include "manta/serve/predictions_json_internal.h"

namespace manta::serve {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kAcceptPause{100};

boost::asio::ip::address address_of(const HttpOptions& options) {
  error_code error;
  auto address = boost::asio::ip::make_address(
      options.host == "localhost" ? "127.0.0.1" : options.host, error);
  if (error) {
    throw Error(ErrorKind::kInvalidArgument,
                str("HttpOptions::host must be an IP address or \"localhost\" (was \"",
                    options.host, "\"); \"0.0.0.0\" is every address of this machine"));
  }
  if (!address.is_loopback() && options.token.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("HttpOptions::host is ", options.host,
                    ", which other machines can reach: set HttpOptions::token, which clients then "
                    "send as 'Authorization: Bearer <token>', or listen on 127.0.0.1"));
  }
  return address;
}

void check_limits(const HttpOptions& options) {
  auto require = [](bool ok, const char* name, const char* range, int64_t was) {
    if (!ok) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("HttpOptions::", name, " must be ", range, " (was ", was, ")"));
    }
  };
  require(options.port >= 0 && options.port <= 65535, "port", "from 0 to 65535", options.port);
  require(options.max_connections > 0, "max_connections", "positive", options.max_connections);
  require(options.max_body > 0, "max_body", "positive", options.max_body);
  require(options.max_header >= 256 && options.max_header <= (1 << 20), "max_header",
          "from 256 to 1048576", options.max_header);
  require(options.max_buffered >= options.max_body, "max_buffered", "at least max_body",
          options.max_buffered);
  require(options.header_timeout.count() > 0, "header_timeout", "positive",
          options.header_timeout.count());
  require(options.body_timeout.count() > 0, "body_timeout", "positive",
          options.body_timeout.count());
  require(options.keep_alive.count() > 0, "keep_alive", "positive", options.keep_alive.count());
  for (char c : options.token) {
    if (c <= 0x20 || c >= 0x7f) {
      throw Error(ErrorKind::kInvalidArgument,
                  "HttpOptions::token must be of printable ASCII characters without blanks: it is "
                  "part of a header");
    }
  }
}

}  // namespace

std::string error_body(std::string_view why) {
  std::string body = "{\"error\":";
  append_json_string(body, why);
  return body += '}';
}

HttpServer::HttpServer(EventLoop& loop, const HttpOptions& options, HttpHandler& handler)
    : loop_(loop),
      options_(options),
      handler_(handler),
      acceptor_(loop.context),
      scratch_(256 << 10, '\0') {
  check_limits(options);
  tcp::endpoint endpoint(address_of(options), static_cast<uint16_t>(options.port));
  error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(4096, error);
  if (error == boost::asio::error::address_in_use) {
    throw Error(ErrorKind::kIo,
                str("serve: port ", options.port, " of ", options.host,
                    " is in use, by another program or another serve::start. End that one, or "
                    "choose another port: serve::start({.http = {.port = ",
                    options.port % 65535 + 1, "}}); port 0 is any that is free"));
  }
  if (error) {
    throw Error(ErrorKind::kIo, str("serve: listening on port ", options.port, " of ", options.host,
                                    ": ", error.message()));
  }
  auto local = acceptor_.local_endpoint();
  std::string host = local.address().is_unspecified() ? "127.0.0.1" : local.address().to_string();
  if (local.address().is_v6() && !local.address().is_unspecified()) host = "[" + host + "]";
  url_ = str("http://", host, ":", local.port());
  acceptor_.non_blocking(true);
  accept();
}

HttpServer::~HttpServer() { close(); }

void HttpServer::accept() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    std::lock_guard lock(loop_.mutex);
    if (error == boost::asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (error) {  // most likely too many open files: tries again when some may have been closed
      log_warning(str("serve: accepting a connection: ", error.message()));
      accept_timer_ = loop_.after(kAcceptPause, [this] {
        if (acceptor_.is_open()) accept();
      });
      return;
    }
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.non_blocking(true, ignored);
    auto connection = std::make_shared<HttpConnection>(*this, std::move(socket));
    bool too_many = connections() >= options_.max_connections;
    connections_.insert(connection);
    if (too_many) {
      connection->refuse(503, "too many connections (HttpOptions::max_connections)",
                         "Retry-After: 1\r\n");
    } else {
      connection->start();
    }
    accept();
  });
}

bool HttpServer::reserve(int64_t bytes) {
  if (buffered_ + bytes > options_.max_buffered) return false;
  buffered_ += bytes;
  return true;
}

void HttpServer::arm_timer() {
  timer_at_ = Clock::time_point::max();
  for (const auto& list : waits_) {
    if (!list.empty()) timer_at_ = std::min(timer_at_, list.front()->late_at_);
  }
  if (timer_at_ == Clock::time_point::max()) return timer_.reset();
  auto delay = std::chrono::ceil<std::chrono::milliseconds>(timer_at_ - Clock::now());
  timer_ = loop_.after(std::max(delay, std::chrono::milliseconds(0)), [this] { on_timer(); });
}

void HttpServer::on_timer() {
  auto now = Clock::now();
  for (auto& list : waits_) {
    while (!list.empty() && list.front()->late_at_ <= now) {
      auto connection = list.front()->shared_from_this();
      connection->on_late();
    }
  }
  arm_timer();
}

void HttpServer::drain() {
  draining_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  auto all = connections_;
  for (const auto& connection : all) {
    if (connection->wait_ == Wait::kKeepAlive) connection->close();
  }
}

void HttpServer::close() {
  drain();
  auto all = connections_;
  for (const auto& connection : all) connection->close();
}

}  // namespace manta::serve
