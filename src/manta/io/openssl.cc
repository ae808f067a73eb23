#include <dlfcn.h>

#include "manta/base/error_internal.h"
#include "manta/io/openssl_internal.h"

namespace manta {
namespace {

constexpr char kLibrary[] = "libssl.so.3";

using DlOpen = void* (*)(const char*, int);

// The sanitizers' dlopen ends the process when it sees RTLD_DEEPBIND, because they cannot free
// memory that such a library allocates. OpenSSL frees what it allocates itself.
DlOpen real_dlopen() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  void* libc = ::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (void* found = libc ? ::dlsym(libc, "dlopen") : nullptr) {
    return reinterpret_cast<DlOpen>(found);
  }
#endif
  return ::dlopen;
}

[[noreturn]] void throw_not_loaded() {
  const char* why = ::dlerror();
  throw Error(ErrorKind::kNotFound, str("connections between hosts need ", kLibrary,
                                        " of OpenSSL 3: ", why ? why : "it cannot be loaded",
                                        "; install Debian's package libssl3"));
}

template <class F>
void load(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (!function) throw_not_loaded();
}

OpenSsl load_openssl() {
  OpenSsl loaded;
  loaded.library = real_dlopen()(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (!loaded.library) throw_not_loaded();
#define X(name) load(loaded.library, #name, loaded.name);
  MANTA_OPENSSL_FUNCTIONS(X)
#undef X
  // The machine's configuration of OpenSSL is ignored: what we allow is fixed. OpenSSL is not
  // cleaned up at exit, as threads may still be using it.
  if (loaded.OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) != 1) {
    throw Error(ErrorKind::kResources, str(kLibrary, " cannot be initialised"));
  }
  return loaded;
}

}  // namespace

const OpenSsl& openssl() {
  static const OpenSsl loaded = load_openssl();
  return loaded;
}

std::string openssl_error() {
  unsigned long code = openssl().ERR_get_error();
  const char* reason = code == 0 ? nullptr : openssl().ERR_reason_error_string(code);
  openssl().ERR_clear_error();
  return reason ? reason : "";
}

}  // namespace manta
