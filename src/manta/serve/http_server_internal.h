#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_set>

#include "manta/base/names_internal.h"
#include "manta/io/event_loop_internal.h"
#include "manta/serve/guard_internal.h"
#include "manta/serve/options.h"

namespace manta::serve {

class HttpConnection;

/// A request as it arrived: the bytes of its header and its body.
struct HttpRequest {
  std::string head;
  std::string body;
  RequestHead parts;  ///< Refers to `head`, which must not move while it is used.
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string_view content_type = "application/json";
  std::string extra_fields = {};  ///< Further lines of the header, each with its line end.
};

/// The body of an error: {"error": "..."}.
std::string error_body(std::string_view why);

/// Answers requests. Called with the loop's mutex held.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// `connection->respond` must follow, once, now or later, unless `on_gone` comes first.
  virtual void on_request(const std::shared_ptr<HttpConnection>& connection,
                          std::unique_ptr<HttpRequest> request) = 0;
  /// The client of a request that was not answered has gone.
  virtual void on_gone(HttpConnection& connection) = 0;
  /// A request was refused before it reached `on_request`.
  virtual void on_refused(int status) = 0;
};

/// Listens for HTTP/1.1 and reads requests within limits of size, time and number. It answers one
/// request of a connection at a time; requests that a client sends ahead wait, in order. All of it
/// runs on the loop, and all calls are made with the loop's mutex held.
class HttpServer {
 public:
  /// Throws Error(kIo), which says what to do, if the port is not available;
  /// Error(kInvalidArgument) if the host is not an address of this machine, or needs a token and
  /// has none.
  HttpServer(EventLoop& loop, const HttpOptions& options, HttpHandler& handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;

  /// "http://127.0.0.1:8000".
  const std::string& url() const { return url_; }
  int connections() const { return static_cast<int>(connections_.size()); }
  /// Takes no new connections; closes connections that wait for requests, and the others after
  /// their answer.
  void drain();
  /// Closes every connection.
  void close();

 private:
  friend class HttpConnection;
  enum class Wait { kNone, kHeader, kBody, kKeepAlive, kWrite, kLinger };

  void accept();
  void arm_timer();
  void on_timer();
  bool reserve(int64_t bytes);
  void release(int64_t bytes) { buffered_ -= bytes; }

  EventLoop& loop_;
  const HttpOptions options_;
  HttpHandler& handler_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::unique_ptr<EventLoop::Timer> accept_timer_;
  std::string url_;
  bool draining_ = false;
  int64_t buffered_ = 0;
  std::unordered_set<std::shared_ptr<HttpConnection>> connections_;
  /// Connections by what they wait for. Each list has one duration, so its first connection is the
  /// next to be late.
  std::array<std::list<HttpConnection*>, 6> waits_;
  std::unique_ptr<EventLoop::Timer> timer_;
  Clock::time_point timer_at_ = Clock::time_point::max();
  std::string scratch_;  // the bytes of a read, for the connection that reads
};

}  // namespace manta::serve
