#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "manta/serve/http_server_internal.h"

namespace manta::serve {

/// One client. See HttpServer.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpServer& server, boost::asio::ip::tcp::socket socket);

  void start();
  /// Answers the request that was handed out. Does nothing if the connection has gone.
  void respond(const HttpResponse& response);
  void close();
  /// For the handler: which of its requests waits on this connection.
  uint64_t tag = 0;

 private:
  friend class HttpServer;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class State { kReading, kAnswering, kWriting, kLingering, kClosed };

  void wait_readable();
  void on_readable();
  void process_buffer();
  size_t process(std::string_view bytes);
  bool begin_request(std::string_view bytes, size_t* used);
  bool read_body(std::string_view bytes, size_t* used);
  void finish_request();
  void refuse(int status, const std::string& why, const std::string& extra_fields = {});
  void write(const HttpResponse& response, bool keep_alive);
  void flush();
  void wait_for(HttpServer::Wait wait);
  void on_late();
  void drop_request();

  HttpServer& server_;
  boost::asio::ip::tcp::socket socket_;
  State state_ = State::kReading;
  bool reading_ = false;  // waits for the socket to be readable
  bool processing_ = false;
  bool ends_ = false;                     // no request after this answer
  std::string buffer_;                    // received, and not yet part of a request
  std::unique_ptr<HttpRequest> request_;  // being read
  std::optional<Parser> parser_;          // of its body
  int64_t reserved_ = 0;
  bool is_head_ = false;
  std::string out_;
  size_t sent_ = 0;

  HttpServer::Wait wait_ = HttpServer::Wait::kNone;
  Clock::time_point late_at_;
  std::list<HttpConnection*>::iterator place_;
};

}  // namespace manta::serve
