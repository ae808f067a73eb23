#pragma once

#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <string>

namespace manta {

/// The functions of Debian's OpenSSL that we call. Only the sources of TLS include this header.
///
/// They are not linked but loaded, with their names hidden: libparquet of the pyarrow wheel exports
/// the 1,300 functions of its own OpenSSL (3.6). If libssl were linked, the dynamic linker would
/// mix the two. Loaded separately, each calls only its own functions. As a result, a process that
/// opens no connection to another host does not load OpenSSL at all.
struct OpenSsl {
// clang-format off
#define MANTA_OPENSSL_FUNCTIONS(X) \
  X(OPENSSL_init_ssl) \
  X(TLS_method) \
  X(SSL_CTX_clear_options) \
  X(SSL_CTX_ctrl) \
  X(SSL_CTX_free) \
  X(SSL_CTX_get_ex_data) \
  X(SSL_CTX_new) \
  X(SSL_CTX_set_ciphersuites) \
  X(SSL_CTX_set_default_read_buffer_len) \
  X(SSL_CTX_set_ex_data) \
  X(SSL_CTX_set_num_tickets) \
  X(SSL_CTX_set_options) \
  X(SSL_CTX_set_psk_find_session_callback) \
  X(SSL_CTX_set_psk_use_session_callback) \
  X(SSL_SESSION_free) \
  X(SSL_SESSION_new) \
  X(SSL_SESSION_set1_master_key) \
  X(SSL_SESSION_set_cipher) \
  X(SSL_SESSION_set_protocol_version) \
  X(SSL_CIPHER_find) \
  X(SSL_do_handshake) \
  X(SSL_free) \
  X(SSL_get_SSL_CTX) \
  X(SSL_get_error) \
  X(SSL_has_pending) \
  X(SSL_key_update) \
  X(SSL_new) \
  X(SSL_read_ex) \
  X(SSL_rstate_string) \
  X(SSL_session_reused) \
  X(SSL_set_accept_state) \
  X(SSL_set_bio) \
  X(SSL_set_connect_state) \
  X(SSL_set_verify) \
  X(SSL_shutdown) \
  X(SSL_write_ex) \
  X(BIO_clear_flags) \
  X(BIO_get_data) \
  X(BIO_get_new_index) \
  X(BIO_meth_new) \
  X(BIO_meth_set_create) \
  X(BIO_meth_set_ctrl) \
  X(BIO_meth_set_read_ex) \
  X(BIO_meth_set_write_ex) \
  X(BIO_new) \
  X(BIO_set_data) \
  X(BIO_set_flags) \
  X(BIO_set_init) \
  X(ERR_clear_error) \
  X(ERR_get_error) \
  X(ERR_reason_error_string) \
  X(HMAC) \
  X(EVP_sha256)
// clang-format on
#define X(name) decltype(&::name) name;
  MANTA_OPENSSL_FUNCTIONS(X)
#undef X

  void* library = nullptr;  ///< For dlsym(3).
};

/// Loads it on the first call. Throws Error(kNotFound) that names what to install.
const OpenSsl& openssl();

/// Returns why the last call of this thread failed, and clears OpenSSL's error. Empty if OpenSSL
/// does not say.
std::string openssl_error();

}  // namespace manta
