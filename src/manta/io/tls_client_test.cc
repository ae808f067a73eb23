#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/io/tls_session_internal.h"
#include "manta/io/transport_pair_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// A client must not talk to a server that does not hold the token.
class TlsClientTest : public testing::Test {
 protected:
  // The error of a client whose connection `serve` handles.
  Error connect_to(const std::function<void(UniqueFd)>& serve,
                   std::chrono::milliseconds timeout = 50s) {
    UniqueFd listener = listen_tcp("127.0.0.1", 0);
    std::thread server([&] { serve(accept_one(listener.get())); });
    Error error = error_of([&] {
      connect_tls(TlsKey(kTestToken), "127.0.0.1", local_address(listener.get()).port,
                  Deadline::after(timeout));
    });
    server.join();
    return error;
  }
};

TEST_F(TlsClientTest, AServerWithAnotherTokenIsRefused) {
  Error error = connect_to([](UniqueFd socket) {
    EXPECT_EQ(error_of([&] {
                accept_tls(TlsKey("another token of 32 bytes length"), std::move(socket),
                           Deadline::after(50s));
              }).kind(),
              ErrorKind::kCorrupt);
  });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
}

TEST_F(TlsClientTest, AServerThatSpeaksSomethingElseIsRefused) {
  for (const std::string& text :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string(100, '\0'),
        std::string("MNT1\0\0\0\0\1\0\0\0", 12)}) {
    Error error = connect_to([&](UniqueFd socket) {
      ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
      ::shutdown(socket.get(), SHUT_WR);
      EXPECT_TRUE(poll_until(socket.get(), POLLIN, Deadline::after(50s)));
    });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
  }
}

TEST_F(TlsClientTest, AServerThatClosesIsNamed) {
  Error error = connect_to([](UniqueFd) {});
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), HasSubstr("no encrypted connection with 127.0.0.1:"));
  EXPECT_THAT(error.what(), HasSubstr("it closed the connection"));
}

TEST_F(TlsClientTest, ASilentServerTimesOut) {
  UniqueFd listener = listen_tcp("127.0.0.1", 0);
  Error error = error_of([&] {
    connect_tls(TlsKey(kTestToken), "127.0.0.1", local_address(listener.get()).port,
                Deadline::after(50ms));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("did not complete the handshake"));
}

template <class F>
F* function(const char* name) {
  void* found = ::dlsym(openssl().library, name);
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<F*>(found);
}
#define OPENSSL_FUNCTION(name) auto name = function<decltype(::name)>(#name)

// A server that has a certificate, and ignores every PSK that it is offered.
TEST_F(TlsClientTest, AServerWithACertificateInsteadOfTheTokenIsRefused) {
  const OpenSsl& api = openssl();
  OPENSSL_FUNCTION(EVP_PKEY_Q_keygen);
  OPENSSL_FUNCTION(EVP_PKEY_free);
  OPENSSL_FUNCTION(X509_new);
  OPENSSL_FUNCTION(X509_free);
  OPENSSL_FUNCTION(X509_set_pubkey);
  OPENSSL_FUNCTION(X509_sign);
  OPENSSL_FUNCTION(X509_gmtime_adj);
  OPENSSL_FUNCTION(X509_getm_notBefore);
  OPENSSL_FUNCTION(X509_getm_notAfter);
  OPENSSL_FUNCTION(SSL_CTX_use_certificate);
  OPENSSL_FUNCTION(SSL_CTX_use_PrivateKey);
  OPENSSL_FUNCTION(SSL_set_fd);
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
  X509* certificate = X509_new();
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  ASSERT_GT(X509_sign(certificate, key, api.EVP_sha256()), 0);
  SSL_CTX* context = api.SSL_CTX_new(api.TLS_method());
  ASSERT_EQ(SSL_CTX_use_certificate(context, certificate), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey(context, key), 1);

  Error error = connect_to([&](UniqueFd socket) {
    ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
    SSL* ssl = api.SSL_new(context);
    SSL_set_fd(ssl, socket.get());
    api.SSL_set_accept_state(ssl);
    EXPECT_NE(api.SSL_do_handshake(ssl), 1);
    api.SSL_free(ssl);
    api.ERR_clear_error();
  });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), HasSubstr("certificate verify failed"));
  api.SSL_CTX_free(context);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

}  // namespace
}  // namespace manta
