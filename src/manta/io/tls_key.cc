#include <string.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/io/tls_session_internal.h"

namespace manta {
namespace {

// If you change what follows the handshake, change the number: different versions refuse each
// other.
constexpr std::string_view kIdentity = "manta frames 1";
constexpr std::string_view kKeyLabel = "manta frames 1: TLS pre-shared key";
constexpr size_t kMinToken = 16;
constexpr size_t kReadBuffer = 64u << 10;
constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};

SSL_SESSION* new_psk_session(SSL* ssl) {
  const OpenSsl& api = openssl();
  auto* key =
      static_cast<const unsigned char*>(api.SSL_CTX_get_ex_data(api.SSL_get_SSL_CTX(ssl), 0));
  SSL_SESSION* session = api.SSL_SESSION_new();
  if (!session) return nullptr;
  if (api.SSL_SESSION_set1_master_key(session, key, 32) != 1 ||
      api.SSL_SESSION_set_cipher(session, api.SSL_CIPHER_find(ssl, kAes128GcmSha256)) != 1 ||
      api.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    api.SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

int offer_psk(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* size,
              SSL_SESSION** session) {
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *size = kIdentity.size();
  *session = new_psk_session(ssl);
  return *session != nullptr;
}

// Without a session the handshake fails, as there is no certificate.
int find_psk(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** session) {
  *session = nullptr;
  if (!std::equal(identity, identity + size, kIdentity.begin(), kIdentity.end())) return 1;
  *session = new_psk_session(ssl);
  return *session != nullptr;
}

}  // namespace

TlsKey::Context::Context(std::string_view token) {
  const OpenSsl& api = openssl();
  unsigned int size = 0;
  if (!api.HMAC(api.EVP_sha256(), token.data(), static_cast<int>(token.size()),
                reinterpret_cast<const unsigned char*>(kKeyLabel.data()), kKeyLabel.size(), key,
                &size) ||
      size != sizeof(key)) {
    throw Error(ErrorKind::kResources, str("making a key of a token: ", openssl_error()));
  }
  ssl = api.SSL_CTX_new(api.TLS_method());
  auto set = [&](int what, long number, const void* value = nullptr) {
    return ssl && api.SSL_CTX_ctrl(ssl, what, number, const_cast<void*>(value)) > 0;
  };
  if (!set(SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION) ||
      !set(SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION) ||
      !set(SSL_CTRL_SET_GROUPS_LIST, 0, "X25519:P-256") ||
      !set(SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS) ||
      api.SSL_CTX_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256") != 1 ||
      api.SSL_CTX_set_ex_data(ssl, 0, key) != 1) {
    api.SSL_CTX_free(ssl);
    throw Error(ErrorKind::kResources, str("preparing TLS: ", openssl_error()));
  }
  api.SSL_CTX_ctrl(ssl, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  api.SSL_CTX_ctrl(ssl, SSL_CTRL_SET_READ_AHEAD, 1, nullptr);
  api.SSL_CTX_set_default_read_buffer_len(ssl, kReadBuffer);
  api.SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
  api.SSL_CTX_clear_options(ssl, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  api.SSL_CTX_set_num_tickets(ssl, 0);
  api.SSL_CTX_set_psk_use_session_callback(ssl, offer_psk);
  api.SSL_CTX_set_psk_find_session_callback(ssl, find_psk);
}

TlsKey::Context::~Context() {
  openssl().SSL_CTX_free(ssl);
  ::explicit_bzero(key, sizeof(key));
}

TlsKey::TlsKey(std::string_view token) {
  if (token.size() < kMinToken) {
    throw Error(ErrorKind::kInvalidArgument,
                str("a token for connections between hosts has ", token.size(),
                    " bytes; it must have at least ", kMinToken, ", and be random"));
  }
  context_ = std::make_shared<const Context>(token);
}

}  // namespace manta
