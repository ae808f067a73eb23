#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <list>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/io/tls_listener_fixture_internal.h"
#include "manta/io/tls_session_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST_F(TlsListenerTest, APeerWithTheTokenJoins) {
  listen();
  auto channel = join("one");
  expect_echo(*channel, "hello");
  expect_echo(*channel, std::string(1 << 20, 'x'));
  EXPECT_EQ(locked([&] { return members_.front()->peer(); }), local_address(channel->fd()).text());
  channel.reset();
  EXPECT_EQ(end_of_member(), "");
}

TEST_F(TlsListenerTest, ManyJoinAtOnce) {
  listen();
  constexpr size_t kPeers = 300;
  TlsKey key(kTestToken);
  std::vector<std::unique_ptr<TlsHandshake>> handshakes;
  for (size_t i = 0; i < kPeers; ++i) {
    handshakes.push_back(std::make_unique<TlsHandshake>(
        key, connect_tcp("127.0.0.1", port_, patiently()), TlsHandshake::kConnects));
    handshakes.back()->step();
  }
  std::list<Channel> channels;
  for (auto& handshake : handshakes) {
    while (!handshake->step()) {
      ASSERT_TRUE(poll_until(handshake->fd(), handshake->waits_for(), patiently()));
    }
    channels.emplace_back(handshake->finish());
    channels.back().send([&](OutBuffer& out) { out.push(kHello, str(channels.size())); });
  }
  EXPECT_TRUE(eventually([&] { return joined() == kPeers; }));
  for (auto& channel : channels) expect_echo(channel, "here");
}

TEST_F(TlsListenerTest, APeerThatSendsSomethingElseIsDisconnected) {
  listen();
  struct Case {
    const char* name;
    std::string bytes;
  };
  std::string text(5000, 'x'), zeros(5000, '\0');
  for (const auto& [name, bytes] :
       {Case{"a frame", std::string("MNT1\5\0\0\0\1\0\0\0hello", 17)},
        Case{"HTTP", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"}, Case{"text", text}, Case{"zeros", zeros},
        Case{"a record that is too long", std::string("\x16\x03\x01\xff\xff", 5) + text},
        Case{"an endless hello", std::string("\x16\x03\x01\x10\x00\x01\xff\xff\xff", 9) + text}}) {
    SCOPED_TRACE(name);
    UniqueFd socket = stranger();
    ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    ::shutdown(socket.get(), SHUT_WR);
    EXPECT_TRUE(is_let_go(socket.get()));
  }
  EXPECT_EQ(joined(), 0u);
  expect_that_others_join();
}

TEST_F(TlsListenerTest, AnotherTokenIsRefused) {
  listen();
  Error error = error_of([&] {
    TlsKey other("a token of a test, 32 bytes lonG");
    Channel channel(connect_tls(other, "127.0.0.1", port_, patiently()));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), HasSubstr(str("no encrypted connection with 127.0.0.1:", port_)));
  EXPECT_THAT(error.what(), HasSubstr("both ends must be of the same run"));
  EXPECT_EQ(joined(), 0u);
  expect_that_others_join();
}

TEST_F(TlsListenerTest, APeerThatSpeaksTlsWithoutTheKeyIsRefused) {
  listen();
  const OpenSsl& api = openssl();
  auto set_fd = reinterpret_cast<int (*)(SSL*, int)>(::dlsym(api.library, "SSL_set_fd"));
  for (long version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    SCOPED_TRACE(version);
    SSL_CTX* context = api.SSL_CTX_new(api.TLS_method());  // like a browser that verifies nothing
    api.SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, version, nullptr);
    SSL* ssl = api.SSL_new(context);
    UniqueFd socket = stranger();
    ASSERT_EQ(set_fd(ssl, socket.get()), 1);
    api.SSL_set_connect_state(ssl);
    EXPECT_NE(api.SSL_do_handshake(ssl), 1);
    EXPECT_TRUE(is_let_go(socket.get()));
    api.SSL_free(ssl);
    api.SSL_CTX_free(context);
  }
  api.ERR_clear_error();
  EXPECT_EQ(joined(), 0u);
  expect_that_others_join();
}

TEST_F(TlsListenerTest, ASilentOrSlowPeerIsDisconnected) {
  listen({.stay = 200ms});
  UniqueFd silent = stranger(), slow = stranger();
  auto proved = connect_tls(TlsKey(kTestToken), "127.0.0.1", port_, patiently());
  std::atomic<bool> done = false;
  std::thread trickle([&] {
    std::string hello("\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03", 11);
    hello.resize(261, 'r');
    for (char byte : hello) {
      if (done || ::send(slow.get(), &byte, 1, MSG_NOSIGNAL) != 1) break;
      std::this_thread::sleep_for(5ms);
    }
  });
  EXPECT_TRUE(is_let_go(silent.get()));
  EXPECT_TRUE(is_let_go(slow.get()));
  EXPECT_TRUE(is_let_go(proved->fd()));  // the handshake alone is not enough
  done = true;
  trickle.join();
  expect_that_others_join();
}

// All connections of the flood stay silent; a peer from another address joins meanwhile.
TEST_F(TlsListenerTest, AFloodFromOneHostKeepsNoOtherHostOut) {
  listen({.max_strangers = 16, .max_per_source = 4, .max_waiting = 32, .patience = 50ms});
  std::vector<UniqueFd> flood;
  for (int i = 0; i < 200; ++i) flood.push_back(stranger("127.0.0.2"));
  expect_that_others_join();
  // The flood has its four places, and no more.
  EXPECT_TRUE(eventually([&] {
    auto open = std::count_if(flood.begin(), flood.end(),
                              [](const UniqueFd& each) { return !is_closed(each.get()); });
    return open <= 4;
  }));
  for (int i = 0; i < 50; ++i) flood.push_back(stranger("127.0.0.2"));
  expect_that_others_join();
  EXPECT_FALSE(is_closed(flood.front().get()));
}

TEST_F(TlsListenerTest, ALargeFrameBeforeTheWelcomeIsRefused) {
  listen();
  auto channel = join(std::string(4097, 'x'));
  Frame frame;
  EXPECT_FALSE(channel->receive(&frame, patiently()));
  EXPECT_EQ(joined(), 0u);
  auto fits = join(std::string(4096, 'x'));
  expect_echo(*fits, "hello");
}

TEST_F(TlsListenerTest, AMemberMayNotExceedTheLimits) {
  struct Case {
    const char* name;
    std::string header;
    const char* why;
  };
  for (const auto& [name, header, why] :
       {Case{"too long", std::string("MNT1\1\0\0\4\3\0\0\0", 12), "67108865 bytes, the limit is"},
        Case{"no frame", std::string("MNT2\1\0\0\0\3\0\0\0", 12), "wrong magic number"},
        Case{"descriptors", std::string("MNT1\0\0\0\0\3\0\1\0", 12), "names 1 descriptors"}}) {
    SCOPED_TRACE(name);
    locked([&] { ends_.clear(); });
    listen();
    auto transport = connect_tls(TlsKey(kTestToken), "127.0.0.1", port_, patiently());
    OutBuffer hello;
    hello.push(kHello, name);
    ASSERT_EQ(hello.flush(*transport), IoStatus::kDone);
    ASSERT_EQ(transport->write(header, {}).status, IoStatus::kDone);
    EXPECT_THAT(end_of_member(), HasSubstr(why));
  }
}

TEST_F(TlsListenerTest, ItsStrangersEndWithIt) {
  listen();
  UniqueFd silent = stranger();
  auto proved = connect_tls(TlsKey(kTestToken), "127.0.0.1", port_, patiently());
  locked([&] { listener_.reset(); });
  EXPECT_TRUE(is_let_go(silent.get()));
  EXPECT_TRUE(is_let_go(proved->fd()));
}

// The process is killed: its system closes the connection.
TEST_F(TlsListenerTest, AKilledPeerIsSeen) {
  int to_child[2];
  ASSERT_EQ(::pipe(to_child), 0);
  pid_t child = ::fork();  // before there are threads
  if (child == 0) {
    uint16_t port = 0;
    if (::read(to_child[0], &port, sizeof(port)) != sizeof(port)) ::_exit(1);
    Channel channel(connect_tls(TlsKey(kTestToken), "127.0.0.1", port, patiently()));
    channel.send([](OutBuffer& out) { out.push(kHello, "child"); });
    ::pause();
    ::_exit(0);
  }
  listen();
  ASSERT_EQ(::write(to_child[1], &port_, sizeof(port_)), static_cast<ssize_t>(sizeof(port_)));
  EXPECT_TRUE(eventually([&] { return joined() == 1; }));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(end_of_member(), "");
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(to_child[0]);
  ::close(to_child[1]);
}

}  // namespace
}  // namespace manta
