// The header of a request. What the guard accepts has one meaning.

#include <manta/base/error_internal.h>
#include <manta/serve/guard_internal.h>
#include <manta/serve/request.h>

#include "target.h"

namespace manta::fuzz::http {
namespace {

void check_head(std::string_view input) {
  serve::RequestHead head;
  if (serve::read_head(input, &head)) return;
  MANTA_CHECK(!head.path.empty() && head.path[0] == '/', "a request without a path");
  MANTA_CHECK(!(head.chunked && head.content_length), "a body with two lengths");
  MANTA_CHECK(input.find('\0') == std::string_view::npos, "a header with a zero byte");
  MANTA_CHECK(input.substr(input.size() - 4) == "\r\n\r\n", "a header without an end");
  serve::Request request;
  request.fields = head.fields;
  request.query = head.query;
  auto length = request.header("Content-Length");
  MANTA_CHECK(length.empty() == !head.content_length, "two readers see two lengths");
  request.param("a");
}

}  // namespace

void run(std::string_view input) {
  check_head(input);
  size_t end = input.find("\r\n\r\n");
  if (end != std::string_view::npos) check_head(input.substr(0, end + 4));
}

std::vector<std::string> seeds() {
  return {
      "POST /m?a=%20 HTTP/1.1\r\nHost: a:80\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
      "POST /m HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: x, close\r\n\r\n",
      "GET /-/healthz HTTP/1.0\r\nAuthorization: Bearer t\r\n\r\n",
      "POST /m HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
      "POST /m HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n"};
}

}  // namespace manta::fuzz::http
