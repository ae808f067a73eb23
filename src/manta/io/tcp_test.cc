#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "manta/base/error_of_internal.h"
#include "manta/io/tcp_internal.h"
#include "manta/io/transport_pair_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Deadline soon() { return Deadline::after(50s); }

bool has_ipv6() {
  try {
    listen_tcp("::1", 0);
    return true;
  } catch (const Error&) {
    return false;
  }
}

int option(int socket, int level, int name) {
  int value = -1;
  socklen_t size = sizeof(value);
  EXPECT_EQ(::getsockopt(socket, level, name, &value, &size), 0);
  return value;
}

TEST(TcpTest, ConnectsByAddressAndByName) {
  for (const char* host : {"127.0.0.1", "localhost"}) {
    SCOPED_TRACE(host);
    UniqueFd listener = listen_tcp("127.0.0.1", 0);
    TcpAddress address = local_address(listener.get());
    EXPECT_EQ(address.host, "127.0.0.1");
    UniqueFd client = connect_tcp(host, address.port, soon());
    UniqueFd server = accept_one(listener.get());
    EXPECT_EQ(peer_address(client.get()).text(), address.text());
    EXPECT_EQ(peer_address(server.get()).text(), local_address(client.get()).text());
  }
}

TEST(TcpTest, ConnectsOverIpv6) {
  if (!has_ipv6()) GTEST_SKIP() << "this machine has no IPv6";
  UniqueFd listener = listen_tcp("::1", 0);
  TcpAddress address = local_address(listener.get());
  EXPECT_EQ(address.text(), str("[::1]:", address.port));
  UniqueFd client = connect_tcp("::1", address.port, soon());
  EXPECT_EQ(peer_address(client.get()).text(), address.text());
}

// Otherwise a peer would be told an address that it cannot connect to.
TEST(TcpTest, AnIpv4PeerOfAnIpv6SocketHasItsIpv4Address) {
  if (!has_ipv6()) GTEST_SKIP() << "this machine has no IPv6";
  UniqueFd listener = listen_tcp("::", 0);
  UniqueFd client = connect_tcp("127.0.0.1", local_address(listener.get()).port, soon());
  EXPECT_EQ(peer_address(accept_one(listener.get()).get()).host, "127.0.0.1");
}

TEST(TcpTest, BothEndsHaveTheOptions) {
  UniqueFd listener = listen_tcp("127.0.0.1", 0);
  TcpOptions options{.keepalive_idle = 7s,
                     .keepalive_interval = 5s,
                     .keepalive_probes = 4,
                     .user_timeout = 12345ms};
  UniqueFd client = connect_tcp("127.0.0.1", local_address(listener.get()).port, soon(), options);
  UniqueFd server = accept_one(listener.get());
  set_tcp_options(server.get(), options);
  for (int socket : {client.get(), server.get()}) {
    EXPECT_EQ(option(socket, IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_EQ(option(socket, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(socket, IPPROTO_TCP, TCP_KEEPIDLE), 7);
    EXPECT_EQ(option(socket, IPPROTO_TCP, TCP_KEEPINTVL), 5);
    EXPECT_EQ(option(socket, IPPROTO_TCP, TCP_KEEPCNT), 4);
    EXPECT_EQ(option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 12345);
  }
}

TEST(TcpTest, ErrorsNameTheAddress) {
  UniqueFd taken = listen_tcp("127.0.0.1", 0);
  uint16_t port = local_address(taken.get()).port;
  uint16_t free_port = local_address(listen_tcp("127.0.0.1", 0).get()).port;  // closed again
  struct Case {
    const char* name;
    std::function<UniqueFd()> open;
    std::string message;
  };
  for (const auto& [name, open, message] :
       {Case{"taken", [&] { return listen_tcp("127.0.0.1", port); },
             str("listening on 127.0.0.1:", port, ": Address already in use")},
        Case{"not here", [&] { return listen_tcp("192.0.2.1", 0); },
             "listening on 192.0.2.1:0: Cannot assign requested address"},
        Case{"no name", [&] { return listen_tcp("", 0); }, "the host '' has no address here"},
        Case{"refused", [&] { return connect_tcp("127.0.0.1", free_port, soon()); },
             str("connecting to 127.0.0.1:", free_port, ": Connection refused")},
        Case{"unknown", [&] { return connect_tcp("no-such-host.invalid", 80, soon()); },
             "connecting to no-such-host.invalid:80: the host 'no-such-host.invalid' has no"}}) {
    SCOPED_TRACE(name);
    Error error = error_of([&] { open(); });
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

// A listener whose queue is full does not answer.
TEST(TcpTest, AHostThatDoesNotAnswerTimesOut) {
  UniqueFd listener = listen_tcp("127.0.0.1", 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  uint16_t port = local_address(listener.get()).port;
  std::vector<UniqueFd> queued;
  Error error = error_of([&] {
    for (int i = 0; i < 10; ++i) {
      queued.push_back(connect_tcp("127.0.0.1", port, Deadline::after(200ms)));
    }
  });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr(str("connecting to 127.0.0.1:", port, ": no answer")));
}

TEST(ParseAddress, TakesWhatTcpAddressWrites) {
  for (const char* text : {"10.0.0.7:4711", "[fd00::7]:4711"}) {
    EXPECT_EQ(parse_address(text).text(), text);
  }
  for (const char* text : {"", "10.0.0.7", ":1", "a:70000", "a:1x"}) {
    EXPECT_THROW(parse_address(text), Error) << text;
  }
}

}  // namespace
}  // namespace manta
