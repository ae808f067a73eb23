#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "manta/base/error_internal.h"
#include "manta/io/tls_session_internal.h"

namespace manta {
namespace {

constexpr size_t kMaxRecord = 16u << 10;
constexpr size_t kRecordOverhead = 64;       // at most; the real one is 22
constexpr size_t kMaxGathered = 256u << 10;  // bytes encrypted before a system call
constexpr size_t kMaxDiscarded = 16u << 20;
constexpr size_t kMaxIdleOut = 4u << 10;

bool is_would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

long bio_ctrl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

int bio_create(BIO* bio) {
  openssl().BIO_set_init(bio, 1);
  return 1;
}

}  // namespace

const BIO_METHOD* TlsSession::socket_method() {
  // OpenSSL's own socket BIO would raise SIGPIPE.
  static const BIO_METHOD* method = [] {
    const OpenSsl& api = openssl();
    BIO_METHOD* made = api.BIO_meth_new(api.BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "manta");
    if (!made || api.BIO_meth_set_read_ex(made, bio_read) != 1 ||
        api.BIO_meth_set_write_ex(made, bio_write) != 1 ||
        api.BIO_meth_set_ctrl(made, bio_ctrl) != 1 ||
        api.BIO_meth_set_create(made, bio_create) != 1) {
      throw Error(ErrorKind::kResources, str("preparing TLS: ", openssl_error()));
    }
    return made;
  }();
  return method;
}

int TlsSession::bio_read(BIO* bio, char* into, size_t size, size_t* read) {
  const OpenSsl& api = openssl();
  auto& self = *static_cast<TlsSession*>(api.BIO_get_data(bio));
  api.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  ssize_t received;
  do {
    received = ::recv(self.fd_, into, size, MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received > 0) {
    *read = static_cast<size_t>(received);
    return 1;
  }
  if (received == 0 || errno == ECONNRESET) {
    self.at_end_ = true;
  } else if (is_would_block(errno)) {
    api.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
  } else {
    self.read_error_ = errno;
  }
  return 0;
}

int TlsSession::bio_write(BIO* bio, const char* bytes, size_t size, size_t* written) {
  const OpenSsl& api = openssl();
  api.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  static_cast<TlsSession*>(api.BIO_get_data(bio))->out_.append(bytes, size);
  *written = size;
  return 1;
}

TlsSession::TlsSession(const TlsKey& key, UniqueFd socket, TlsHandshake::Role role)
    : key_(key), socket_(std::move(socket)), fd_(socket_.get()), peer_(peer_address(fd_).text()) {
  const OpenSsl& api = openssl();
  const BIO_METHOD* method = socket_method();
  ssl_ = api.SSL_new(key_.context_->ssl);
  BIO* bio = ssl_ ? api.BIO_new(method) : nullptr;
  if (!bio) {
    api.SSL_free(ssl_);
    throw Error(ErrorKind::kResources, str("preparing TLS: ", openssl_error()));
  }
  api.BIO_set_data(bio, this);
  api.SSL_set_bio(ssl_, bio, bio);
  if (role == TlsHandshake::kAccepts) {
    api.SSL_set_accept_state(ssl_);
  } else {
    api.SSL_set_connect_state(ssl_);
    // No certificate is trusted: a server that has one instead of the key is refused.
    api.SSL_set_verify(ssl_, SSL_VERIFY_PEER, nullptr);
  }
}

TlsSession::~TlsSession() {
  const OpenSsl& api = openssl();
  if (proved_ && !failed_ && !abandoned_ && !nobody_reads_ && out_.empty()) {
    api.ERR_clear_error();
    api.SSL_shutdown(ssl_);  // if the socket takes it, the peer knows that nothing was cut off
    ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    discard_unread();
  }
  api.SSL_free(ssl_);
}

// Closing a socket with unread bytes would throw away what it has yet to send.
void TlsSession::discard_unread() const {
  std::array<char, 16 << 10> bytes;
  for (size_t all = 0; all < kMaxDiscarded;) {
    ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0) return;
    all += static_cast<size_t>(got);
  }
}

bool TlsSession::abandon() {
  abandoned_ = true;
  return out_.empty() && !openssl().SSL_has_pending(ssl_);
}

IoStatus TlsSession::handshake() {
  const OpenSsl& api = openssl();
  api.ERR_clear_error();
  int result = api.SSL_do_handshake(ssl_);
  // The unsent bytes may say why this end refuses.
  IoStatus sent = send_out();
  if (result != 1) {
    if (stopped(result) == IoStatus::kClosed) {
      throw Error(ErrorKind::kIo, str("no encrypted connection with ", peer_,
                                      ": it closed the connection during the handshake"));
    }
    return IoStatus::kWouldBlock;
  }
  if (api.SSL_session_reused(ssl_) != 1) fail("it did not use the token");
  if (sent == IoStatus::kWouldBlock) return sent;
  proved_ = true;
  has_more_ = true;  // the peer may have sent bytes right after the handshake
  return IoStatus::kDone;
}

Transport::Moved TlsSession::read(std::span<char> into) {
  const OpenSsl& api = openssl();
  size_t got = 0;
  // Takes in the same call what OpenSSL holds; the socket is read once.
  do {
    api.ERR_clear_error();
    size_t bytes = 0;
    int result = api.SSL_read_ex(ssl_, into.data() + got, into.size() - got, &bytes);
    if (result == 1) {
      got += bytes;
      continue;
    }
    has_more_ = false;
    send_out();
    if (got == 0) return {stopped(result)};
    // The next call sees an end or an error again, after the bytes before it.
    if (api.SSL_get_error(ssl_, result) == SSL_ERROR_SSL) tls_error_ = openssl_error();
    return {IoStatus::kDone, got};
  } while (got < into.size() && api.SSL_has_pending(ssl_));
  has_more_ = api.SSL_has_pending(ssl_);
  send_out();
  return {IoStatus::kDone, got};
}

Transport::Moved TlsSession::write(std::string_view bytes) {
  const OpenSsl& api = openssl();
  IoStatus status = send_out();
  if (status != IoStatus::kDone) return {status};
  bytes = bytes.substr(0, kMaxGathered);
  out_.reserve(bytes.size() + (bytes.size() / kMaxRecord + 2) * kRecordOverhead);
  size_t taken = 0;
  while (taken < bytes.size()) {
    api.ERR_clear_error();
    if (records_++ >= records_per_key_) {
      records_ = 1;
      api.SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED);
    }
    size_t written = 0;
    int result = api.SSL_write_ex(ssl_, bytes.data() + taken,
                                  std::min(bytes.size() - taken, kMaxRecord), &written);
    if (result != 1) return {stopped(result), taken};
    taken += written;
  }
  return {send_out(), taken};
}

IoStatus TlsSession::send_out() {
  size_t sent = 0;
  while (sent < out_.size() && !nobody_reads_) {
    ssize_t result =
        ::send(fd_, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (result >= 0) {
      sent += static_cast<size_t>(result);
    } else if (is_would_block(errno)) {
      out_.erase(0, sent);
      return IoStatus::kWouldBlock;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      nobody_reads_ = true;
    } else if (errno != EINTR) {
      failed_ = true;
      throw_errno(str("writing to ", peer_));
    }
  }
  out_.clear();
  if (out_.capacity() > kMaxIdleOut) out_ = {};
  return nobody_reads_ ? IoStatus::kClosed : IoStatus::kDone;
}

// The status of an unsuccessful call of OpenSSL.
IoStatus TlsSession::stopped(int result) {
  if (read_error_ != 0) {
    failed_ = true;
    throw Error(ErrorKind::kIo, str("reading from ", peer_, ": ", errno_text(read_error_)));
  }
  int error = openssl().SSL_get_error(ssl_, result);
  if (error == SSL_ERROR_WANT_READ) return IoStatus::kWouldBlock;
  if (error == SSL_ERROR_ZERO_RETURN) return IoStatus::kClosed;
  if (at_end_ && proved_ && amid_record()) fail("it was cut off in the middle of a record");
  if (at_end_) {
    failed_ = true;
    return IoStatus::kClosed;
  }
  if (tls_error_.empty()) tls_error_ = openssl_error();
  fail(tls_error_);
}

bool TlsSession::amid_record() {
  return openssl().SSL_has_pending(ssl_) || openssl().SSL_rstate_string(ssl_)[1] == 'B';
}

void TlsSession::fail(const std::string& why) {
  failed_ = true;
  if (proved_) {
    throw Error(ErrorKind::kCorrupt, str("the encrypted connection with ", peer_, " broke: ", why));
  }
  throw Error(ErrorKind::kCorrupt, str("no encrypted connection with ", peer_, ": ", why,
                                       "; both ends must be of the same run and hold its token"));
}

}  // namespace manta
