#include <arpa/inet.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <boost/asio/executor_work_guard.hpp>
#include <future>
#include <list>
#include <set>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/io/tls_listener_internal.h"
#include "manta/io/tls_session_internal.h"
#include "manta/io/transport_pair_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr uint16_t kHello = 1, kEcho = 2;

Deadline patiently() { return Deadline::after(50s); }

// A listener that takes whoever says hello, and echoes what it says then.
class TlsListenerTest : public testing::Test {
 protected:
  void listen(AdmissionLimits limits = {}) {
    std::lock_guard lock(loop_.mutex);
    listener_ = std::make_unique<TlsListener>(
        loop_, TlsKey(kTestToken), listen_tcp("127.0.0.1", 0),
        [this](const auto& channel, Frame& frame) { on_first(channel, frame); },
        TlsListenerOptions{.limits = limits});
    port_ = listener_->address().port;
    if (!thread_.joinable()) thread_ = std::thread([this] { loop_.context.run(); });
  }
  ~TlsListenerTest() override {
    {
      std::lock_guard lock(loop_.mutex);
      listener_.reset();
      for (auto& each : members_) each->close();
    }
    work_.reset();
    if (thread_.joinable()) thread_.join();
  }

  void on_first(const std::shared_ptr<AsyncChannel>& channel, Frame& frame) {
    if (frame.type != kHello) throw Error(ErrorKind::kCorrupt, "it does not say hello");
    hellos_.insert(std::string(frame.body));
    members_.push_back(channel);
    channel->trust();
    channel->start(
        [this, raw = channel.get()](Frame& next) {
          frames_ += 1;
          raw->out().push(kEcho, next.body);
        },
        [this](const std::string& why) { ends_.push_back(why); });
  }
  template <class F>
  auto locked(const F& f) {
    std::lock_guard lock(loop_.mutex);
    return f();
  }
  size_t joined() {
    return locked([&] { return hellos_.size(); });
  }
  // Why the first member went.
  std::string end_of_member() {
    EXPECT_TRUE(eventually([&] { return locked([&] { return !ends_.empty(); }); }));
    return locked([&] { return ends_.empty() ? "(it is still there)" : ends_.front(); });
  }

  std::unique_ptr<Channel> join(const std::string& name, uint16_t port = 0) {
    auto channel = std::make_unique<Channel>(
        connect_tls(TlsKey(kTestToken), "127.0.0.1", port ? port : port_, patiently()));
    channel->send([&](OutBuffer& out) { out.push(kHello, name); });
    return channel;
  }
  void expect_echo(Channel& channel, const std::string& text) {
    ASSERT_TRUE(channel.send([&](OutBuffer& out) { out.push(3, text); }));
    Frame frame;
    ASSERT_TRUE(channel.receive(&frame, patiently()));
    EXPECT_EQ(frame.type, kEcho);
    EXPECT_EQ(frame.body, text);
  }
  void expect_that_others_join() {
    auto channel = join("another");
    expect_echo(*channel, "hello?");
  }
  UniqueFd stranger(const char* from = "127.0.0.1") {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    EXPECT_EQ(::inet_pton(AF_INET, from, &address.sin_addr), 1);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr), 1);
    address.sin_port = htons(port_);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return socket;
  }

  EventLoop loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.context.get_executor()};
  std::set<std::string> hellos_;
  std::vector<std::string> ends_;
  std::atomic<int> frames_ = 0;
  std::list<std::shared_ptr<AsyncChannel>> members_;
  std::unique_ptr<TlsListener> listener_;
  uint16_t port_ = 0;
  std::thread thread_;
};

bool is_closed(int socket) {
  char byte;
  ssize_t got = ::recv(socket, &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

// Reads what the listener may say (an alert) until it closes.
bool is_let_go(int socket) {
  while (poll_until(socket, POLLIN, patiently())) {
    char bytes[1000];
    if (::recv(socket, bytes, sizeof(bytes), 0) <= 0) return true;
  }
  return false;
}

TEST_F(TlsListenerTest, WhoHoldsTheTokenJoins) {
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

TEST_F(TlsListenerTest, WhoSaysSomethingElseIsLetGo) {
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

TEST_F(TlsListenerTest, WhoSpeaksTlsWithoutTheKeyIsRefused) {
  listen();
  const OpenSsl& api = openssl();
  auto set_fd = reinterpret_cast<int (*)(SSL*, int)>(::dlsym(api.library, "SSL_set_fd"));
  for (long version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    SCOPED_TRACE(version);
    SSL_CTX* context = api.SSL_CTX_new(api.TLS_method());  // as any browser: it verifies nothing
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

TEST_F(TlsListenerTest, WhoSaysNothingOrTooSlowlyIsLetGo) {
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

// All of them stay silent; who comes from elsewhere joins meanwhile.
TEST_F(TlsListenerTest, AFloodFromOneHostKeepsNobodyElseOut) {
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

// Between a client and the listener; it may keep, cut off or change what the client sends.
class Proxy {
 public:
  // What becomes of the client's bytes; with `false` they are the last.
  using Change = std::function<std::pair<std::string, bool>(std::string bytes)>;

  Proxy(uint16_t to, Change change)
      : listener_(listen_tcp("127.0.0.1", 0)),
        port_(local_address(listener_.get()).port),
        thread_([this, to, change] {
          UniqueFd client = accept_one(listener_.get());
          UniqueFd server = connect_tcp("127.0.0.1", to, patiently());
          while (forward(client.get(), server.get(), change)) continue;
        }) {}
  ~Proxy() {
    if (thread_.joinable()) thread_.join();
  }

  uint16_t port() const { return port_; }
  // All that the client has sent, once it has closed.
  const std::string& recorded() {
    thread_.join();
    return recorded_;
  }

 private:
  bool forward(int client, int server, const Change& change) {
    pollfd ends[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    if (::poll(ends, 2, 50'000) <= 0) return false;
    char bytes[4096];
    for (int i = 0; i < 2; ++i) {
      if (ends[i].revents == 0) continue;
      ssize_t got = ::recv(ends[i].fd, bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got <= 0) return false;
      std::string text(bytes, static_cast<size_t>(got));
      if (i == 0) {
        recorded_ += text;
        auto [changed, go_on] = change(text);
        ::send(server, changed.data(), changed.size(), MSG_NOSIGNAL);
        if (!go_on) return false;
      } else {
        ::send(client, text.data(), text.size(), MSG_NOSIGNAL);
      }
    }
    return true;
  }

  UniqueFd listener_;
  uint16_t port_;
  std::string recorded_;
  std::thread thread_;
};

TEST_F(TlsListenerTest, WhatWasRecordedCannotBeReplayed) {
  listen();
  Proxy proxy(port_, [](std::string bytes) { return std::pair(bytes, true); });
  {
    auto channel = join("original", proxy.port());
    expect_echo(*channel, "secret words");
  }
  EXPECT_EQ(end_of_member(), "");
  const std::string& recorded = proxy.recorded();
  EXPECT_GT(recorded.size(), 300u);
  EXPECT_THAT(recorded, testing::Not(HasSubstr("original")));
  EXPECT_THAT(recorded, testing::Not(HasSubstr("secret words")));
  EXPECT_THAT(recorded, testing::Not(HasSubstr(kTestToken)));
  for (int i = 0; i < 3; ++i) {
    UniqueFd replay = stranger();
    ASSERT_EQ(::send(replay.get(), recorded.data(), recorded.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(recorded.size()));
    EXPECT_TRUE(is_let_go(replay.get()));
  }
  EXPECT_EQ(locked([&] { return members_.size(); }), 1u);
  EXPECT_EQ(frames_, 1);
}

TEST_F(TlsListenerTest, AChangedBitIsSeen) {
  listen();
  std::atomic<bool> change = false;
  Proxy proxy(port_, [&](std::string bytes) {
    if (change) bytes.back() = static_cast<char>(bytes.back() ^ 1);
    return std::pair(bytes, true);
  });
  auto channel = join("one", proxy.port());
  expect_echo(*channel, "unchanged");
  change = true;
  ASSERT_TRUE(channel->send([](OutBuffer& out) { out.push(3, "changed"); }));
  EXPECT_THAT(end_of_member(), HasSubstr("the encrypted connection with 127.0.0.1"));
  EXPECT_EQ(frames_, 1);
}

// A connection that ends without TLS's own goodbye, at different places.
TEST_F(TlsListenerTest, WhatIsCutOffIsCorruptExceptBetweenFrames) {
  struct Case {
    const char* name;
    std::string sent;
    size_t kept;  // bytes of its record that arrive
    const char* why;
  };
  const std::string whole("MNT1\3\0\0\0\3\0\0\0abc", 15);
  for (const auto& [name, sent, kept, why] :
       {Case{"between frames", whole, SIZE_MAX, ""},
        Case{"in a frame", whole.substr(0, 14), SIZE_MAX, "in the middle of a frame"},
        Case{"in the header of a record", whole, 3, "in the middle of a record"},
        Case{"after the header of a record", whole, 5, "in the middle of a record"},
        Case{"in a record", whole, 20, "in the middle of a record"}}) {
    SCOPED_TRACE(name);
    locked([&] { ends_.clear(); });
    listen();
    std::atomic<bool> last = false;
    Proxy proxy(port_, [&, kept = kept](std::string bytes) {
      return last ? std::pair(bytes.substr(0, kept), false) : std::pair(bytes, true);
    });
    auto transport = connect_tls(TlsKey(kTestToken), "127.0.0.1", proxy.port(), patiently());
    OutBuffer hello;
    hello.push(kHello, name);
    ASSERT_EQ(hello.flush(*transport), IoStatus::kDone);
    ASSERT_TRUE(eventually([&] { return locked([&] { return hellos_.contains(name); }); }));
    last = true;
    ASSERT_EQ(transport->write(sent, {}).status, IoStatus::kDone);
    std::string end = end_of_member();
    EXPECT_THAT(end, HasSubstr(why));
    EXPECT_EQ(end.empty(), *why == '\0');
  }
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
