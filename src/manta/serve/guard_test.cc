#include <gmock/gmock.h>

#include "manta/serve/guard_internal.h"

namespace manta::serve {
namespace {

using testing::HasSubstr;

// Complete headers. Status 0: accepted.
struct HeadCase {
  std::string bytes;
  int status;
  const char* why;
};

std::string with(const std::string& fields) {
  return "POST /m HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
}

TEST(Guard, RefusesWhatTwoReadersMayReadInTwoWays) {
  const HeadCase cases[] = {
      {with(""), 0, ""},
      {with("Content-Length: 7\r\n"), 0, ""},
      {with("content-length:\t7 \r\n"), 0, ""},
      {with("Transfer-Encoding: chunked\r\n"), 0, ""},
      {with("Transfer-Encoding: Chunked\r\n"), 0, ""},
      {with("X-Empty:\r\n"), 0, ""},
      {with("X-Latin: \xe4\r\n"), 0, ""},
      {"GET /a/b?c=d HTTP/1.0\r\n\r\n", 0, ""},
      // The body's length
      {with("Content-Length: 7\r\nContent-Length: 7\r\n"), 400, "more than one Content-Length"},
      {with("Content-Length: 7\r\nContent-Length: 8\r\n"), 400, "more than one Content-Length"},
      {with("Content-Length: 7, 7\r\n"), 400, "no number"},
      {with("Content-Length: +7\r\n"), 400, "no number"},
      {with("Content-Length: -7\r\n"), 400, "no number"},
      {with("Content-Length: 0x7\r\n"), 400, "no number"},
      {with("Content-Length: 7 7\r\n"), 400, "no number"},
      {with("Content-Length:\r\n"), 400, "no number"},
      {with("Content-Length: 18446744073709551616\r\n"), 400, "no number"},
      {with("Content-Length: 7\r\nTransfer-Encoding: chunked\r\n"), 400,
       "beside Transfer-Encoding"},
      {with("Transfer-Encoding: chunked\r\nContent-Length: 7\r\n"), 400,
       "beside Transfer-Encoding"},
      {with("Transfer-Encoding: gzip\r\nContent-Length: 7\r\n"), 501, "chunked"},
      {with("Transfer-Encoding: gzip, chunked\r\n"), 501, "chunked"},
      {with("Transfer-Encoding: chunked, identity\r\n"), 501, "chunked"},
      {with("Transfer-Encoding: identity\r\n"), 501, "chunked"},
      {with("Transfer-Encoding: xchunked\r\n"), 501, "chunked"},
      {with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400,
       "more than one Transfer-Encoding"},
      {with("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), 400, "more than one"},
      {with("Transfer-Encoding:\r\n"), 501, "chunked"},
      {"POST /m HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "HTTP/1.0"},
      // Lines
      {with("X: a\r\n b\r\n"), 400, "folded"},
      {with("X: a\r\n\tTransfer-Encoding: chunked\r\n"), 400, "folded"},
      {with("X : a\r\n"), 400, "no 'Name: value'"},
      {with("Content-Length : 7\r\n"), 400, "no 'Name: value'"},
      {with("Transfer-Encoding\x0b: chunked\r\n"), 400, "no 'Name: value'"},
      {with(": a\r\n"), 400, "no 'Name: value'"},
      {with("no colon\r\n"), 400, "no 'Name: value'"},
      {with("X: a\nContent-Length: 7\r\n"), 400, "CR LF"},
      {with("X: a\rContent-Length: 7\r\n"), 400, "CR LF"},
      {with(std::string("X: a\0b\r\n", 8)), 400, "control character"},
      {with("X: a\x7f\r\n"), 400, "control character"},
      {with("X\xe4: a\r\n"), 400, "no 'Name: value'"},
      // The host
      {"POST /m HTTP/1.1\r\n\r\n", 400, "needs a Host"},
      {with("Host: b\r\n"), 400, "more than one Host"},
      {"POST /m HTTP/1.1\r\nHost:\r\n\r\n", 400, "one host"},
      {"POST /m HTTP/1.1\r\nHost: a, b\r\n\r\n", 400, "one host"},
      {"POST /m HTTP/1.1\r\nHost: user@a\r\n\r\n", 400, "one host"},
      // The request line
      {"\r\nPOST /m HTTP/1.1\r\nHost: a\r\n\r\n", 400, "request line"},
      {"POST  /m HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target"},
      {"POST\t/m HTTP/1.1\r\nHost: a\r\n\r\n", 400, ""},
      {"POST /m /n HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target"},
      {"POST http://a/m HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target"},
      {"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target"},
      {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target"},
      {"POST /m\xe4 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target"},
      {"POST /m#x HTTP/1.1\r\nHost: a\r\n\r\n", 400, "target"},
      {"P(ST /m HTTP/1.1\r\nHost: a\r\n\r\n", 400, "method"},
      {"POST /m HTTP/1.2\r\nHost: a\r\n\r\n", 505, "HTTP/1.1"},
      {"POST /m HTTP/2.0\r\nHost: a\r\n\r\n", 505, "HTTP/1.1"},
      {"POST /m HTTP/1.1 \r\nHost: a\r\n\r\n", 400, ""},
      {"POST /m\r\n\r\n", 400, "request line"},
      {"POST /m http/1.1\r\nHost: a\r\n\r\n", 400, ""},
      // Features that are not supported
      {with("Expect: 100-continue\r\n"), 0, ""},
      {with("Expect: something\r\n"), 417, "100-continue"},
      {with("Content-Encoding: gzip\r\n"), 415, "compressed"},
      {with("Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"), 400,
       "more than one Authorization"},
  };
  for (const auto& c : cases) {
    RequestHead head;
    auto refusal = read_head(c.bytes, &head);
    EXPECT_EQ(refusal ? refusal->status : 0, c.status) << c.bytes;
    EXPECT_THAT(refusal ? refusal->why : "", HasSubstr(c.why)) << c.bytes;
  }
}

TEST(Guard, CutsAHeaderIntoItsParts) {
  RequestHead head;
  ASSERT_FALSE(
      read_head("POST /m/n?x=1 HTTP/1.1\r\nHost: a:80\r\nAuthorization:  Bearer t \r\n"
                "Content-Length: 12\r\nConnection: x, Close\r\nExpect: 100-Continue\r\n\r\n",
                &head));
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.path, "/m/n");
  EXPECT_EQ(head.query, "x=1");
  EXPECT_EQ(head.authorization, "Bearer t");
  EXPECT_EQ(head.content_length, 12u);
  EXPECT_FALSE(head.keep_alive);
  EXPECT_TRUE(head.expects_continue);
  EXPECT_EQ(head.fields.substr(0, 10), "Host: a:80");
  EXPECT_EQ(head.fields.substr(head.fields.size() - 2), "\r\n");
}

}  // namespace
}  // namespace manta::serve
