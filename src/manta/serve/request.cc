#include "manta/serve/request.h"

#include <algorithm>

#include "manta/base/json_input_internal.h"

namespace manta::serve {
namespace {

char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return to_lower(x) == to_lower(y); });
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = to_lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string percent_decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low >= 0) {
      result += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      result += text[i] == '+' ? ' ' : text[i];
    }
  }
  return result;
}

}  // namespace

std::string_view Request::header(std::string_view name) const {
  for (std::string_view rest = fields; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find("\r\n"));
    rest.remove_prefix(std::min(rest.size(), line.size() + 2));
    size_t colon = line.find(':');
    if (colon == std::string_view::npos || !same_name(line.substr(0, colon), name)) continue;
    std::string_view value = line.substr(colon + 1);
    size_t begin = value.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return {};
    return value.substr(begin, value.find_last_not_of(" \t") - begin + 1);
  }
  return {};
}

std::string Request::param(std::string_view name) const {
  for (std::string_view rest = query; !rest.empty();) {
    std::string_view part = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    size_t equals = part.find('=');
    if (percent_decoded(part.substr(0, equals)) != name) continue;
    return equals == std::string_view::npos ? "" : percent_decoded(part.substr(equals + 1));
  }
  return {};
}

Json Request::json() const {
  try {
    return parse_json(body, "the request's body");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    throw Error(ErrorKind::kInvalidArgument, error.what());
  }
}

}  // namespace manta::serve
