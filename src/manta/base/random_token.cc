#include "manta/base/random_token.h"

#include <sys/random.h>

#include "manta/base/error.h"

namespace manta {

std::string random_token() {
  std::string token(32, '\0');
  if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    throw_errno("getrandom");
  }
  return token;
}

}  // namespace manta
