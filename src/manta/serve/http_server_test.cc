#include <gmock/gmock.h>
#include <sys/socket.h>

#include <map>

#include "manta/base/error_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/io/http_client_internal.h"
#include "manta/serve/http_connection_internal.h"
#include "manta/serve/http_server_internal.h"

namespace manta::serve {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Answers with the method, the path and the body; keeps requests for /later.
class EchoHandler : public HttpHandler {
 public:
  void on_request(const std::shared_ptr<HttpConnection>& connection,
                  std::unique_ptr<HttpRequest> request) override {
    std::string text = str(request->parts.method, " ", request->parts.path, " ", request->body);
    if (request->parts.path == "/later") {
      later.push_back(connection);
    } else {
      connection->respond({200, text});
    }
  }
  void on_gone(HttpConnection&) override { ++gone; }
  void on_refused(int status) override { ++refused[status]; }

  std::vector<std::shared_ptr<HttpConnection>> later;
  int gone = 0;
  std::map<int, int> refused;
};

class Server {
 public:
  explicit Server(HttpOptions options = {}) {
    options.port = 0;
    std::lock_guard lock(loop.mutex);
    http = std::make_unique<HttpServer>(loop, options, handler);
    thread = start_thread("a test's server", [this] { loop.context.run(); });
  }
  ~Server() {
    loop.context.stop();
    thread.join();
    std::lock_guard lock(loop.mutex);
    handler.later.clear();
    http.reset();
  }
  template <class F>
  auto with(F f) {
    std::lock_guard lock(loop.mutex);
    return f();
  }
  int connections() {
    return with([&] { return http->connections(); });
  }

  EventLoop loop;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      loop.context.get_executor()};
  EchoHandler handler;
  std::unique_ptr<HttpServer> http;
  std::thread thread;
};

TEST(HttpServer, AnswersOneRequestAfterTheOtherInOrder) {
  Server server;
  HttpClient client(server.http->url());
  std::string many;
  for (int i = 0; i < 1000; ++i) {
    many += str("POST /", i, " HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
  }
  client.send(many);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(client.receive().body, str("POST /", i, " abc"));
}

TEST(HttpServer, TakesARequestInAnyPieces) {
  const std::string request =
      "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\nTrailer: t\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n";
  for (size_t size : {1u, 2u, 7u, 1000u}) {
    Server server;
    HttpClient client(server.http->url());
    for (size_t at = 0; at < request.size(); at += size) client.send(request.substr(at, size));
    EXPECT_EQ(client.receive().body, "POST /a abcdefgh");
    EXPECT_EQ(client.receive().body, "GET /b ");
  }
}

// Bytes on the wire. There must be one answer with this status, and the end of the connection (or,
// for 200, the answer alone). Nothing after a refused request may be answered.
struct WireCase {
  std::string bytes;
  int status;
};

TEST(HttpServer, RefusesWhatCouldBeReadInTwoWays) {
  const std::string smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
  auto post = [](const std::string& fields, const std::string& body) {
    return "POST /a HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" + body;
  };
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  const WireCase cases[] = {
      {post("Content-Length: 3\r\n", "abc"), 200},
      {post(chunked, "3\r\nabc\r\n0\r\n\r\n"), 200},
      {post("Content-Length: 3\r\n" + chunked, "0\r\n\r\n" + smuggled), 400},
      {post(chunked + "Content-Length: 3\r\n", "0\r\n\r\n" + smuggled), 400},
      {post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc" + smuggled), 400},
      {post("Content-Length: 3\r\nContent-Length: 4\r\n", "abc" + smuggled), 400},
      {post("Content-Length: 3, 3\r\n", "abc" + smuggled), 400},
      {post("Content-Length: +3\r\n", "abc" + smuggled), 400},
      {post("Content-Length: 3\n", "abc" + smuggled), 400},
      {post("Transfer-Encoding: gzip\r\nContent-Length: 3\r\n", "abc" + smuggled), 501},
      {post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n" + smuggled), 501},
      {post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n" + smuggled), 501},
      {post("Transfer-Encoding: identity\r\nContent-Length: 3\r\n", "abc" + smuggled), 501},
      {post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n" + smuggled), 400},
      {post("X: a\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n" + smuggled), 400},
      {post("Transfer-Encoding:\x0b"
            "chunked\r\n",
            "0\r\n\r\n" + smuggled),
       400},
      {post("Host: b\r\n", smuggled), 400},
      {"POST /a HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + smuggled, 400},
      {"POST /a HTTP/1.0\r\n" + chunked + "\r\n0\r\n\r\n" + smuggled, 400},
      {"GET /a HTTP/1.1\nHost: a\n\n" + smuggled, 400},
      {"GET /a HTTP/1.1\r\nHost: a\n\r\n" + smuggled, 400},
      {"GET /a HTTP/1.1\r\nHost: a\r\r\n\r\n" + smuggled, 400},
      {std::string("GET /a HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 34) + smuggled, 400},
      {"GET /a HTTP/0.9\r\n\r\n", 505},
      {"GET /a\r\n\r\n", 400},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      // Chunks
      {post(chunked, "3\nabc\r\n0\r\n\r\n" + smuggled), 400},
      {post(chunked, "3\r\nabcd\r\n0\r\n\r\n" + smuggled), 400},
      {post(chunked, "-3\r\nabc\r\n0\r\n\r\n" + smuggled), 400},
      {post(chunked, "0x3\r\nabc\r\n0\r\n\r\n" + smuggled), 400},
      {post(chunked, " 3\r\nabc\r\n0\r\n\r\n" + smuggled), 400},
      {post(chunked, "10000000000000000\r\nabc\r\n0\r\n\r\n" + smuggled), 400},
      {post(chunked, "\r\nabc\r\n0\r\n\r\n" + smuggled), 400},
  };
  Server server;
  for (const auto& c : cases) {
    HttpClient client(server.http->url());
    client.send(c.bytes);
    EXPECT_EQ(client.receive().status, c.status) << c.bytes;
    if (c.status == 200) continue;
    try {
      auto more = client.receive();
      ADD_FAILURE() << c.bytes << "\nwas followed by " << more.status << " " << more.body;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo) << error.what();
    }
  }
}

TEST(HttpServer, RefusesWhatIsTooLarge) {
  Server server({.max_body = 1000, .max_header = 1024, .max_buffered = 1500});
  auto first_answer = [&](const std::string& bytes) {
    HttpClient client(server.http->url());
    client.send(bytes);
    return client.receive();
  };
  auto post = [](size_t length) {
    return str("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: ", length, "\r\n\r\n");
  };
  EXPECT_EQ(first_answer(post(1000) + std::string(1000, 'x')).status, 200);
  auto answer = first_answer(post(1001));
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.body, HasSubstr("at most 1000"));
  std::string chunks = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 11; ++i) chunks += "64\r\n" + std::string(100, 'x') + "\r\n";
  EXPECT_EQ(first_answer(chunks).status, 413);
  EXPECT_EQ(first_answer("GET /" + std::string(2000, 'a')).status, 431);
  EXPECT_EQ(
      first_answer("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(1000, 'a') + "\r\n\r\n").status,
      431);
  // All bodies together
  HttpClient holding(server.http->url());
  holding.send(post(1000));
  ASSERT_TRUE(eventually([&] { return first_answer(post(600)).status == 503; }));
  holding.send(std::string(1000, 'x'));
  EXPECT_EQ(holding.receive().status, 200);
  ASSERT_TRUE(
      eventually([&] { return first_answer(post(600) + std::string(600, 'x')).status == 200; }));
}

TEST(HttpServer, SlowAndSilentClientsAreLetGo) {
  Server server({.header_timeout = milliseconds(100),
                 .body_timeout = milliseconds(100),
                 .keep_alive = milliseconds(200)});
  HttpClient header(server.http->url()), body(server.http->url()), silent(server.http->url());
  header.send("GET / HT");
  body.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
  EXPECT_EQ(header.receive().status, 408);
  EXPECT_EQ(body.receive().status, 408);
  EXPECT_TRUE(silent.is_closed());
  header.close();
  body.close();
  EXPECT_TRUE(eventually([&] { return server.connections() == 0; }));
}

// The bytes come one by one, but the whole header takes too long.
TEST(HttpServer, ATrickleDoesNotExtendTheTime) {
  Server server({.header_timeout = milliseconds(150)});
  HttpClient client(server.http->url());
  auto trickle = start_thread("a slow client", [&] {
    try {
      for (int i = 0; i < 2000; ++i) {
        client.send(i == 0 ? "GET / HTTP/1.1\r\nX: " : "a");
        std::this_thread::sleep_for(milliseconds(5));
      }
    } catch (const Error&) {  // the connection was closed
    }
  });
  EXPECT_TRUE(
      eventually([&] { return server.with([&] { return server.handler.refused[408]; }) == 1; }));
  EXPECT_TRUE(eventually([&] { return server.connections() == 0; }));
  trickle.join();
}

TEST(HttpServer, AClientThatGoesIsNoticedWhileItsRequestWaits) {
  Server server;
  auto later = [&] { return server.with([&] { return server.handler.later.size(); }); };
  HttpClient client(server.http->url());
  client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return later() == 1; }));
  client.close();
  EXPECT_TRUE(eventually([&] { return server.with([&] { return server.handler.gone; }) == 1; }));
  server.with([&] { server.handler.later[0]->respond({200, "too late"}); });
}

TEST(HttpServer, AClientThatReadsSlowlyGetsAllOfAnAnswer) {
  Server server;
  HttpClient client(server.http->url());
  client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(
      eventually([&] { return server.with([&] { return server.handler.later.size(); }) == 1; }));
  std::string large(30 << 20, 'x');
  server.with([&] { server.handler.later[0]->respond({200, large}); });
  EXPECT_EQ(client.receive().body.size(), large.size());
  EXPECT_EQ(client.get("/b").body, "GET /b ");
}

TEST(HttpServer, ConnectionsAreLimited) {
  Server server({.max_connections = 2});
  HttpClient first(server.http->url()), second(server.http->url());
  EXPECT_EQ(first.get("/").status, 200);
  EXPECT_EQ(second.get("/").status, 200);
  HttpClient third(server.http->url());
  auto answer = third.receive();
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.header, HasSubstr("Retry-After: 1"));
  third.close();
  first.close();
  EXPECT_TRUE(eventually([&] { return server.connections() == 1; }));
  EXPECT_EQ(HttpClient(server.http->url()).get("/").status, 200);
}

TEST(HttpServer, SaysContinueToAClientThatAsks) {
  Server server;
  HttpClient client(server.http->url());
  client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive().status, 100);
  client.send("abc");
  EXPECT_EQ(client.receive().body, "POST /a abc");
  client.send("GET /a HTTP/1.0\r\n\r\n");
  EXPECT_THAT(client.receive().header, HasSubstr("Connection: close"));
  EXPECT_TRUE(client.is_closed());
}

TEST(HttpServer, ImpossibleOptionsAreErrors) {
  EventLoop loop;
  EchoHandler handler;
  auto message = [&](HttpOptions options) -> std::string {
    try {
      HttpServer server(loop, options, handler);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({.port = 70000}),
              HasSubstr("HttpOptions::port must be from 0 to 65535 (was 70000)"));
  EXPECT_THAT(message({.port = 0, .token = "a b"}), HasSubstr("HttpOptions::token"));
  EXPECT_THAT(message({.port = 0, .max_body = 10, .max_buffered = 5}), HasSubstr("max_buffered"));
  EXPECT_THAT(message({.port = 0, .keep_alive = milliseconds(0)}), HasSubstr("keep_alive"));
}

}  // namespace
}  // namespace manta::serve
