#include <algorithm>
#include <cctype>

#include "manta/io/remote_files_internal.h"

namespace manta {
namespace {

bool is_scheme(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '+' || c == '-';
  });
}

std::string without_slashes(std::string path) {
  path.erase(0, std::min(path.find_first_not_of('/'), path.size()));
  while (path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

std::string RemoteAddress::text() const {
  return str(scheme, "://", authority, "/", path, query.empty() ? "" : "?", query);
}

RemoteAddress RemoteAddress::with_path(std::string other) const {
  return {scheme, authority, without_slashes(std::move(other)), query};
}

RemoteAddress RemoteAddress::child(const std::string& name) const {
  return with_path(path.empty() ? name : str(path, "/", name));
}

std::optional<RemoteAddress> remote_address(const std::string& text) {
  size_t scheme_end = text.find("://");
  if (scheme_end == std::string::npos) return std::nullopt;
  RemoteAddress address;
  address.scheme = text.substr(0, scheme_end);
  if (!is_scheme(address.scheme)) return std::nullopt;
  std::string rest = text.substr(scheme_end + 3);
  if (size_t query = rest.find('?'); query != std::string::npos) {
    address.query = rest.substr(query + 1);
    rest.resize(query);
  }
  size_t slash = std::min(rest.find('/'), rest.size());
  address.authority = rest.substr(0, slash);
  address.path = without_slashes(rest.substr(slash));
  size_t user_end = address.authority.rfind('@');
  if (user_end != std::string::npos && address.authority.find(':') < user_end) {
    throw Error(ErrorKind::kInvalidArgument,
                str("an address of ", address.scheme,
                    ":// has a secret key in it, which plans would store and messages print; leave "
                    "it out, and give the key in the environment (AWS_ACCESS_KEY_ID, "
                    "AWS_SECRET_ACCESS_KEY) or in ~/.aws/credentials"));
  }
  return address;
}

}  // namespace manta
