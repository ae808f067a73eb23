#include <sys/random.h>

#include "manta/base/error_internal.h"
#include "manta/base/random_token_internal.h"

namespace manta {

std::string random_token() {
  std::string token(32, '\0');
  if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    throw_errno("getrandom");
  }
  return token;
}

}  // namespace manta
