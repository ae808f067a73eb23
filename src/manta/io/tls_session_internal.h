#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "manta/io/openssl_internal.h"
#include "manta/io/tls_internal.h"

namespace manta {

struct TlsKey::Context {
  explicit Context(std::string_view token);
  ~Context();

  SSL_CTX* ssl = nullptr;
  unsigned char key[32];
};

/// One TLS connection on one socket, which never blocks. Not thread-safe.
///
/// OpenSSL reads the socket itself, 64 KB at a time. Its output is gathered here, so that many
/// records leave in one system call. Bytes that the socket does not take are kept here, so that
/// OpenSSL never has to wait to write.
class TlsSession {
 public:
  TlsSession(const TlsKey& key, UniqueFd socket, TlsHandshake::Role role);
  ~TlsSession();

  int fd() const { return fd_; }
  /// Gives the socket to an owner that outlives this.
  UniqueFd take_socket() { return std::move(socket_); }
  const std::string& peer() const { return peer_; }

  /// kDone once the peer has proved itself.
  IoStatus handshake();
  Transport::Moved read(std::span<char> into);
  /// kDone if the socket has taken everything.
  Transport::Moved write(std::string_view bytes);

  bool has_more() const { return has_more_; }
  bool has_unsent() const { return !out_.empty(); }

  /// Gives up the socket: the session sends no closing alert. False if there are encrypted bytes
  /// that were not sent, or bytes that were not read.
  bool abandon();

  SSL* ssl() { return ssl_; }

  /// A key encrypts this many records, of 16 KB at most; then it is replaced. The limit of AES-GCM
  /// is 24 million.
  static constexpr uint64_t kRecordsPerKey = 1u << 23;
  void set_records_per_key(uint64_t records) { records_per_key_ = records; }

 private:
  void discard_unread() const;
  static const BIO_METHOD* socket_method();
  static int bio_read(BIO* bio, char* into, size_t size, size_t* read);
  static int bio_write(BIO* bio, const char* bytes, size_t size, size_t* written);

  IoStatus send_out();
  IoStatus stopped(int result);
  bool amid_record();
  [[noreturn]] void fail(const std::string& why);

  TlsKey key_;
  UniqueFd socket_;
  const int fd_;
  const std::string peer_;
  SSL* ssl_ = nullptr;
  std::string out_;  // encrypted, and not yet taken by the socket
  bool proved_ = false;
  bool has_more_ = false;
  bool at_end_ = false;
  bool nobody_reads_ = false;
  bool failed_ = false;
  bool abandoned_ = false;
  int read_error_ = 0;
  std::string tls_error_;
  uint64_t records_ = 0;  // with the present key
  uint64_t records_per_key_ = kRecordsPerKey;
};

}  // namespace manta
