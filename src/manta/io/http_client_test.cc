#include <gmock/gmock.h>
#include <unistd.h>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/io/http_client_internal.h"
#include "manta/io/scripted_server_internal.h"

namespace manta {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

template <class F>
std::string refusal(ErrorKind kind, F&& f) {
  Error error = error_of(f);
  EXPECT_EQ(error.kind(), kind) << error.what();
  return error.what();
}

TEST(HttpClientTest, AddressesAreTakenApartOrRefused) {
  HttpAddress address = http_address("http://[::1]:8000/a?b=c");
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.port, "8000");
  EXPECT_EQ(address.field, "[::1]:8000");
  EXPECT_EQ(address.path, "/a?b=c");
  EXPECT_EQ(http_address("http://host").port, "80");
  EXPECT_EQ(http_address("http://host").path, "/");
  for (const char* wrong :
       {"", "host:80", "ftp://host", "http://", "http://:80/", "http://a:b", "http://a:0",
        "http://a:70000", "http://a b/", "http://a:1\r\nX: y", "http://user@host/"}) {
    EXPECT_THAT(refusal(ErrorKind::kInvalidArgument, [&] { http_address(wrong); }),
                HasSubstr(str("'", wrong, "'")));
  }
  EXPECT_THAT(refusal(ErrorKind::kInvalidArgument, [] { http_address("https://a/"); }),
              HasSubstr("https is not supported"));
  EXPECT_EQ(percent_encoded("a b/\xc3\xa4~"), "a%20b%2F%C3%A4~");
}

TEST(HttpClientTest, RequestsAndAnswersOfEveryForm) {
  ScriptedServer server([](const std::string& request) -> std::string {
    if (request.find("/chunks") != std::string::npos)
      return "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n, "
             "chunks!!\r\n0\r\nTrailer: x\r\n\r\n";
    if (request.find("/close") != std::string::npos)
      return "close:HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nall of it";
    if (request.find("/100") != std::string::npos)
      return "HTTP/1.1 100 Continue\r\n\r\n" + http_answer(201, "made");
    return http_answer(200, request);
  });
  HttpClient client(server.url() + "/base");
  EXPECT_EQ(client.get("/chunks").body, "hello, chunks!!");
  EXPECT_EQ(client.get("/100").status, 201);
  auto echoed = client.post("body", "X-One: 1\r\n").body;
  EXPECT_THAT(echoed, AllOf(StartsWith("POST /base HTTP/1.1\r\nHost: 127.0.0.1:"),
                            HasSubstr("X-One: 1\r\n"), HasSubstr("\r\n\r\nbody")));
  TemporaryFolder folder;
  std::string path = folder / "file";
  FILE* file = std::fopen(path.c_str(), "w+");
  std::fputs("from a file", file);
  std::fflush(file);
  std::rewind(file);
  HttpClient::Request put;
  put.method = "PUT";
  put.path = "/put";
  put.file = ::fileno(file);
  put.file_size = 11;
  EXPECT_THAT(client.request(put).body, HasSubstr("Content-Length: 11\r\n\r\nfrom a file"));
  refusal(ErrorKind::kIo, [&] { HttpClient(server.url()).request(put); });  // nothing is left
  std::fclose(file);
  EXPECT_EQ(client.get("/close").body, "all of it");
  EXPECT_TRUE(client.is_closed());
}

TEST(HttpClientTest, NonsenseAndSilenceAreErrors) {
  ScriptedServer server([](const std::string& request) -> std::string {
    auto has = [&](const char* path) { return request.find(path) != std::string::npos; };
    if (has("/ssh")) return "SSH-2.0-OpenSSH_9.2\r\n";
    if (has("/status")) return "HTTP/1.1 abc\r\n\r\n";
    if (has("/length")) return "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
    if (has("/number")) return "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n";
    if (has("/chunk")) return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    if (has("/short")) return "close:HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
    if (has("/nothing")) return "close:";
    return "";
  });
  HttpLimits limits{.timeout = milliseconds(60'000), .answer_bytes = 1000};
  for (const char* path : {"/ssh", "/status", "/length", "/number", "/chunk"}) {
    EXPECT_THAT(refusal(ErrorKind::kCorrupt, [&] { HttpClient(server.url(), limits).get(path); }),
                HasSubstr("http://127.0.0.1"))
        << path;
  }
  for (const char* path : {"/short", "/nothing"})
    refusal(ErrorKind::kIo, [&] { HttpClient(server.url(), limits).get(path); });
  limits.timeout = milliseconds(50);
  EXPECT_THAT(
      refusal(ErrorKind::kTimeout, [&] { HttpClient(server.url(), limits).get("/silence"); }),
      HasSubstr("0.05 s"));
}

TEST(HttpClientTest, NothingListens) {
  std::string url = ScriptedServer([](const std::string&) { return ""; }).url();
  EXPECT_THAT(refusal(ErrorKind::kIo, [&] { HttpClient client(url); }), HasSubstr(url));
}

}  // namespace
}  // namespace manta
