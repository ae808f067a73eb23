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

bool same_secret(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ (i < b.size() ? b[i] : '\0'));
  return difference == 0;
}

}  // namespace manta
