#include <sys/socket.h>

#include <boost/beast/http/status.hpp>

#include "manta/base/error_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/serve/http_connection_internal.h"

namespace manta::serve {
namespace {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kMaxSentAhead = 64 << 10;  // bytes from a client that does not wait for its answer

// The guard refuses a bare LF in a whole header. In a part of a header, the connection would wait
// for the rest.
bool has_bare_line_feed(std::string_view bytes) {
  for (size_t at = bytes.find('\n'); at != std::string_view::npos; at = bytes.find('\n', at + 1)) {
    if (at == 0 || bytes[at - 1] != '\r') return true;
  }
  return false;
}

}  // namespace

HttpConnection::HttpConnection(HttpServer& server, tcp::socket socket)
    : server_(server), socket_(std::move(socket)) {}

void HttpConnection::start() {
  wait_for(HttpServer::Wait::kKeepAlive);
  wait_readable();
}

void HttpConnection::wait_readable() {
  if (reading_ || state_ == State::kClosed) return;
  reading_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    std::lock_guard lock(self->server_.loop_.mutex);
    self->reading_ = false;
    if (!error && self->state_ != State::kClosed) self->on_readable();
  });
}

void HttpConnection::on_readable() {
  auto self = shared_from_this();
  std::string& scratch = server_.scratch_;
  ssize_t size = ::recv(socket_.native_handle(), scratch.data(), scratch.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return wait_readable();
  if (size <= 0) return close();  // also if it only promises to send nothing more
  std::string_view bytes(scratch.data(), static_cast<size_t>(size));
  if (state_ == State::kLingering) return wait_readable();  // drops whatever it still sends
  if (state_ == State::kReading && buffer_.empty()) {
    // The usual case: a whole request in one piece, read where it is.
    size_t used = process(bytes);
    if (state_ == State::kClosed || state_ == State::kLingering) return wait_readable();
    buffer_.insert(0, bytes.substr(used));
  } else {
    buffer_ += bytes;
  }
  process_buffer();
  if (state_ == State::kReading || state_ == State::kLingering || buffer_.size() < kMaxSentAhead)
    wait_readable();
}

// Handles the requests in the buffer, as far as they may be handled now. It does not call itself:
// an answer that comes at once returns here, however many requests a client sends at a time.
void HttpConnection::process_buffer() {
  if (processing_) return;
  processing_ = true;
  while (state_ == State::kReading && !buffer_.empty()) {
    size_t used = process(buffer_);
    if (state_ == State::kClosed) break;
    buffer_.erase(0, used);
    if (used == 0) break;
  }
  processing_ = false;
}

// Reads one request, or as much of it as is there; returns how many bytes that took.
size_t HttpConnection::process(std::string_view bytes) {
  bool outermost = !std::exchange(processing_, true);
  size_t used = 0;
  if (request_ || begin_request(bytes, &used)) {
    size_t of_body = 0;
    if (read_body(bytes.substr(used), &of_body)) finish_request();
    used += of_body;
  }
  if (outermost) processing_ = false;
  return used;
}

bool HttpConnection::begin_request(std::string_view bytes, size_t* used) {
  const HttpOptions& options = server_.options_;
  auto limit = static_cast<size_t>(options.max_header);
  size_t end = bytes.substr(0, limit + 4).find("\r\n\r\n");
  if (end == std::string_view::npos || end + 4 > limit) {
    if (bytes.size() >= limit) {
      refuse(431, str("the header is longer than ", limit, " bytes (HttpOptions::max_header)"));
    } else if (has_bare_line_feed(bytes)) {
      refuse(400, "a line of the header does not end in CR LF");
    } else {
      wait_for(HttpServer::Wait::kHeader);
    }
    return false;
  }
  request_ = std::make_unique<HttpRequest>();
  request_->head.assign(bytes.substr(0, end + 4));
  *used = end + 4;
  RequestHead& head = request_->parts;
  ends_ = true;
  if (auto refusal = read_head(request_->head, &head)) {
    refuse(refusal->status, refusal->why);
    return false;
  }
  ends_ = !head.keep_alive || server_.draining_;
  is_head_ = head.method == "HEAD";
  if (!options.token.empty() && (head.authorization.substr(0, 7) != "Bearer " ||
                                 !same_secret(head.authorization.substr(7), options.token))) {
    refuse(401, "send the token: Authorization: Bearer <token>", "WWW-Authenticate: Bearer\r\n");
    return false;
  }
  auto length =
      static_cast<int64_t>(std::min<uint64_t>(head.content_length.value_or(0), INT64_MAX));
  if (length > options.max_body) {
    refuse(413, str("the body has ", length, " bytes; at most ", options.max_body,
                    " are taken (HttpOptions::max_body)"));
    return false;
  }
  int64_t reserve = head.chunked ? options.max_body : length;
  if (!server_.reserve(reserve)) {
    refuse(503,
           "the bodies of other requests use up the memory for them (HttpOptions::max_buffered)",
           "Retry-After: 1\r\n");
    return false;
  }
  reserved_ = reserve;
  parser_.emplace();
  parser_->eager(true);
  parser_->header_limit(static_cast<uint32_t>(options.max_header));
  parser_->body_limit(static_cast<uint64_t>(options.max_body));
  error_code error;
  parser_->put(boost::asio::buffer(request_->head), error);
  if (error && error != http::error::need_more) {
    refuse(400, str("the header cannot be read: ", error.message()));
    return false;
  }
  if (!parser_->is_done()) {
    wait_for(HttpServer::Wait::kBody);
    if (head.expects_continue && bytes.size() == *used) {
      constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      (void)!::send(socket_.native_handle(), kContinue.data(), kContinue.size(),
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
  return true;
}

// True once the body is complete.
bool HttpConnection::read_body(std::string_view bytes, size_t* used) {
  while (!parser_->is_done() && *used < bytes.size()) {
    error_code error;
    std::string_view rest = bytes.substr(*used);
    size_t taken = parser_->put(boost::asio::buffer(rest.data(), rest.size()), error);
    *used += taken;
    if (error == http::error::need_more) break;
    if (error == http::error::body_limit) {
      refuse(413, str("the body has more than ", server_.options_.max_body,
                      " bytes (HttpOptions::max_body)"));
      return false;
    }
    if (error) {
      refuse(400, str("the body cannot be read: ", error.message()));
      return false;
    }
    if (taken == 0) break;
  }
  return parser_->is_done();
}

void HttpConnection::finish_request() {
  auto request = std::move(request_);
  request->body = std::move(parser_->get().body());
  parser_.reset();
  auto size = static_cast<int64_t>(request->body.size());
  server_.release(reserved_ - size);
  reserved_ = size;
  state_ = State::kAnswering;
  wait_for(HttpServer::Wait::kNone);
  server_.handler_.on_request(shared_from_this(), std::move(request));
}

void HttpConnection::drop_request() {
  request_.reset();
  parser_.reset();
  server_.release(std::exchange(reserved_, 0));
}

// The bytes that follow in the stream must not be read as a request: the connection ends.
void HttpConnection::refuse(int status, const std::string& why, const std::string& extra_fields) {
  drop_request();
  server_.handler_.on_refused(status);
  write({status, error_body(why), "application/json", extra_fields}, /*keep_alive=*/false);
}

void HttpConnection::respond(const HttpResponse& response) {
  if (state_ != State::kAnswering) return;
  drop_request();
  write(response, !ends_ && !server_.draining_);
}

void HttpConnection::write(const HttpResponse& response, bool keep_alive) {
  ends_ = !keep_alive;
  state_ = State::kWriting;
  auto reason = http::obsolete_reason(static_cast<http::status>(response.status));
  out_.clear();
  sent_ = 0;
  out_.reserve(160 + response.extra_fields.size() + response.body.size());
  out_ += "HTTP/1.1 ";
  out_ += std::to_string(response.status);
  out_ += ' ';
  out_.append(reason.data(), reason.size());
  out_ += "\r\nContent-Type: ";
  out_ += response.content_type;
  out_ += "\r\nContent-Length: ";
  out_ += std::to_string(response.body.size());
  out_ += keep_alive ? "\r\n" : "\r\nConnection: close\r\n";
  out_ += response.extra_fields;
  out_ += "\r\n";
  if (!std::exchange(is_head_, false)) out_ += response.body;
  flush();
}

void HttpConnection::flush() {
  auto self = shared_from_this();
  while (sent_ < out_.size()) {
    ssize_t size = ::send(socket_.native_handle(), out_.data() + sent_, out_.size() - sent_,
                          MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno != EAGAIN) return close();
    if (size < 0) {
      wait_for(HttpServer::Wait::kWrite);
      socket_.async_wait(tcp::socket::wait_write, [self](error_code error) {
        std::lock_guard lock(self->server_.loop_.mutex);
        if (!error && self->state_ == State::kWriting) self->flush();
      });
      return;
    }
    sent_ += static_cast<size_t>(size);
  }
  if (out_.capacity() > kMaxSentAhead) std::string().swap(out_);
  if (ends_) {
    // Closing at once, while the client still sends, would reset the connection, and the answer
    // would be lost.
    state_ = State::kLingering;
    std::string().swap(buffer_);
    ::shutdown(socket_.native_handle(), SHUT_WR);
    wait_for(HttpServer::Wait::kLinger);
    return wait_readable();
  }
  state_ = State::kReading;
  wait_for(HttpServer::Wait::kKeepAlive);
  if (!buffer_.empty()) process_buffer();
  wait_readable();
}

void HttpConnection::close() {
  if (state_ == State::kClosed) return;
  auto self = shared_from_this();
  bool answering = state_ == State::kAnswering;
  state_ = State::kClosed;
  drop_request();
  wait_for(HttpServer::Wait::kNone);
  error_code ignored;
  socket_.close(ignored);
  server_.connections_.erase(self);
  if (answering) server_.handler_.on_gone(*this);
}

void HttpConnection::wait_for(HttpServer::Wait wait) {
  auto& lists = server_.waits_;
  const HttpOptions& options = server_.options_;
  if (wait == wait_ && wait == HttpServer::Wait::kHeader) return;  // from the first byte on
  if (wait_ != HttpServer::Wait::kNone) lists[static_cast<size_t>(wait_)].erase(place_);
  wait_ = wait;
  if (wait == HttpServer::Wait::kNone) return;
  std::chrono::milliseconds time{2000};  // how long to linger
  if (wait == HttpServer::Wait::kHeader) time = options.header_timeout;
  if (wait == HttpServer::Wait::kBody || wait == HttpServer::Wait::kWrite)
    time = options.body_timeout;
  if (wait == HttpServer::Wait::kKeepAlive) time = options.keep_alive;
  late_at_ = Clock::now() + time;
  auto& list = lists[static_cast<size_t>(wait)];
  place_ = list.insert(list.end(), this);
  if (late_at_ < server_.timer_at_) server_.arm_timer();
}

void HttpConnection::on_late() {
  if (wait_ == HttpServer::Wait::kHeader)
    return refuse(408, "the header did not arrive in time (HttpOptions::header_timeout)");
  if (wait_ == HttpServer::Wait::kBody)
    return refuse(408, "the body did not arrive in time (HttpOptions::body_timeout)");
  close();
}

}  // namespace manta::serve
