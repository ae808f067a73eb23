#include <algorithm>
#include <array>
#include <charconv>

#include "manta/base/error_internal.h"
#include "manta/serve/guard_internal.h"

namespace manta::serve {
namespace {

// Which bytes may be in a name (a "token" of RFC 9110).
constexpr std::array<bool, 256> kTokenBytes = [] {
  std::array<bool, 256> table{};
  for (int c = '0'; c <= '9'; ++c) table[static_cast<size_t>(c)] = true;
  for (int c = 'a'; c <= 'z'; ++c) table[static_cast<size_t>(c)] = true;
  for (int c = 'A'; c <= 'Z'; ++c) table[static_cast<size_t>(c)] = true;
  for (char c : {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'})
    table[static_cast<size_t>(c)] = true;
  return table;
}();

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return kTokenBytes[static_cast<unsigned char>(c)];
  });
}

// Printable ASCII without blanks; bytes beyond ASCII have no place in a target or a host.
bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

bool is_field_value(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}

bool equals(std::string_view a, std::string_view lower_case) {
  return std::equal(a.begin(), a.end(), lower_case.begin(), lower_case.end(), [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? static_cast<char>(x - 'A' + 'a') : x) == y;
  });
}

std::string_view trimmed(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Whether a list of words separated by commas has this one.
bool lists(std::string_view value, std::string_view word) {
  while (!value.empty()) {
    std::string_view part = value.substr(0, value.find(','));
    value.remove_prefix(std::min(value.size(), part.size() + 1));
    if (equals(trimmed(part), word)) return true;
  }
  return false;
}

class HeadReader {
 public:
  HeadReader(std::string_view bytes, RequestHead* head) : rest_(bytes), head_(*head) {}

  std::optional<Refusal> read() {
    std::string_view line;
    if (!next_line(&line)) return refuse(400, "a line of the header does not end in CR LF");
    if (auto refusal = read_request_line(line)) return refusal;
    head_.fields = rest_;
    while (true) {
      if (!next_line(&line)) return refuse(400, "a line of the header does not end in CR LF");
      if (line.empty()) break;
      if (auto refusal = read_field(line)) return refusal;
    }
    head_.fields.remove_suffix(2);
    return check_framing();
  }

 private:
  static Refusal refuse(int status, std::string why) { return {status, std::move(why)}; }

  bool next_line(std::string_view* line) {
    size_t end = rest_.find_first_of("\r\n");
    if (end == std::string_view::npos || rest_.substr(end, 2) != "\r\n") return false;
    *line = rest_.substr(0, end);
    rest_.remove_prefix(end + 2);
    return true;
  }

  std::optional<Refusal> read_request_line(std::string_view line) {
    size_t first = line.find(' '), last = line.rfind(' ');
    if (first == std::string_view::npos || first == last)
      return refuse(400, "the request line must be: METHOD /path HTTP/1.1");
    head_.method = line.substr(0, first);
    std::string_view target = line.substr(first + 1, last - first - 1);
    std::string_view version = line.substr(last + 1);
    if (version != "HTTP/1.1" && version != "HTTP/1.0")
      return refuse(version.substr(0, 5) == "HTTP/" ? 505 : 400,
                    "only HTTP/1.1 and HTTP/1.0 are spoken here");
    is_1_1_ = version == "HTTP/1.1";
    head_.keep_alive = is_1_1_;
    if (!is_token(head_.method)) return refuse(400, "the method is no word");
    if (target.empty() || target[0] != '/' || !is_visible(target) ||
        target.find('#') != std::string_view::npos) {
      return refuse(400, "the request's target must be a path that begins with '/'");
    }
    size_t question = target.find('?');
    head_.path = target.substr(0, question);
    if (question != std::string_view::npos) head_.query = target.substr(question + 1);
    return std::nullopt;
  }

  std::optional<Refusal> read_field(std::string_view line) {
    if (line[0] == ' ' || line[0] == '\t') return refuse(400, "a folded line in the header");
    size_t colon = line.find(':');
    std::string_view name = line.substr(0, colon);
    if (colon == std::string_view::npos || !is_token(name))
      return refuse(400, "a line of the header is no 'Name: value'");
    std::string_view value = trimmed(line.substr(colon + 1));
    if (!is_field_value(value))
      return refuse(400, str("a control character in the header field ", name));
    if (equals(name, "host")) {
      if (++hosts_ > 1) return refuse(400, "more than one Host");
      if (value.empty() || !is_visible(value) ||
          value.find_first_of(",/@?#\\") != std::string_view::npos)
        return refuse(400, "Host must name one host");
    } else if (equals(name, "content-length")) {
      if (head_.content_length) return refuse(400, "more than one Content-Length");
      uint64_t length = 0;
      const char* end = value.data() + value.size();
      auto parsed = std::from_chars(value.data(), end, length);
      if (value.empty() || value[0] == '-' || parsed.ec != std::errc() || parsed.ptr != end)
        return refuse(400, "Content-Length is no number");
      head_.content_length = length;
    } else if (equals(name, "transfer-encoding")) {
      if (head_.chunked) return refuse(400, "more than one Transfer-Encoding");
      if (!equals(value, "chunked"))
        return refuse(501, "the only Transfer-Encoding taken is chunked");
      head_.chunked = true;
    } else if (equals(name, "connection")) {
      if (lists(value, "close")) closes_ = true;
    } else if (equals(name, "expect")) {
      if (!equals(value, "100-continue"))
        return refuse(417, "the only expectation met is 100-continue");
      head_.expects_continue = is_1_1_;
    } else if (equals(name, "authorization")) {
      if (!head_.authorization.empty()) return refuse(400, "more than one Authorization");
      head_.authorization = value;
    } else if (equals(name, "content-encoding")) {
      if (!value.empty() && !equals(value, "identity"))
        return refuse(415, str("bodies must not be compressed (Content-Encoding: ", value, ")"));
    }
    return std::nullopt;
  }

  std::optional<Refusal> check_framing() {
    if (closes_) head_.keep_alive = false;
    if (!rest_.empty()) return refuse(400, "the header does not end where it should");
    if (is_1_1_ && hosts_ == 0) return refuse(400, "HTTP/1.1 needs a Host");
    if (head_.chunked && head_.content_length)
      return refuse(400, "Content-Length beside Transfer-Encoding");
    if (head_.chunked && !is_1_1_) return refuse(400, "Transfer-Encoding in HTTP/1.0");
    return std::nullopt;
  }

  std::string_view rest_;
  RequestHead& head_;
  bool is_1_1_ = true, closes_ = false;
  int hosts_ = 0;
};

}  // namespace

std::optional<Refusal> read_head(std::string_view bytes, RequestHead* head) {
  *head = {};
  return HeadReader(bytes, head).read();
}

}  // namespace manta::serve
