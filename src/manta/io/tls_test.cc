#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <filesystem>
#include <future>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/io/tls_session_internal.h"
#include "manta/io/transport_pair_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Deadline in_time() { return Deadline::after(50s); }

struct Sessions {
  explicit Sessions(int buffer = 0, std::string_view client_token = kTestToken) {
    auto [client, server] = tcp_pair(buffer);
    here = std::make_unique<TlsSession>(TlsKey(client_token), std::move(client),
                                        TlsHandshake::kConnects);
    there =
        std::make_unique<TlsSession>(TlsKey(kTestToken), std::move(server), TlsHandshake::kAccepts);
  }
  void shake_hands() {
    for (bool left = false, right = false; !left || !right;) {
      if (!left) left = here->handshake() == IoStatus::kDone;
      if (!right) right = there->handshake() == IoStatus::kDone;
    }
  }
  std::unique_ptr<TlsSession> here, there;
};

std::string read_all(TlsSession& session, size_t size) {
  std::string text;
  char buffer[1000];
  while (text.size() < size) {
    auto [status, bytes] = session.read(buffer);
    if (status == IoStatus::kClosed) break;
    if (status == IoStatus::kWouldBlock) {
      EXPECT_TRUE(poll_until(session.fd(), POLLIN, in_time()));
    }
    text.append(buffer, bytes);
  }
  return text;
}

TEST(TlsTest, FramesTravelBetweenThreads) {
  TlsKey key(kTestToken);
  UniqueFd listener = listen_tcp("127.0.0.1", 0);
  auto accepted = std::async(
      std::launch::async, [&] { return accept_tls(key, accept_one(listener.get()), in_time()); });
  Channel client(connect_tls(key, "127.0.0.1", local_address(listener.get()).port, in_time()));
  Channel server(accepted.get());
  for (size_t size : {0u, 1u, 1000u, 300000u, 3000000u, 20000000u}) {
    std::string body(size, 'x');
    std::thread sender([&] { client.send([&](OutBuffer& out) { out.push(7, body); }); });
    Frame frame;
    EXPECT_TRUE(server.receive(&frame, size % 2 == 0 ? in_time() : Deadline::never()));
    EXPECT_TRUE(frame.body == body);
    sender.join();
  }
  Frame frame;
  EXPECT_EQ(server.try_receive(&frame), IoStatus::kWouldBlock);
  EXPECT_EQ(error_of([&] { server.receive(&frame, Deadline::after(10ms)); }).kind(),
            ErrorKind::kTimeout);
}

// One thread reads while others write: OpenSSL itself does not allow that.
TEST(TlsTest, ThreadsReadAndWriteAtOnce) {
  auto [left, right] = tls_pair();
  Channel here(std::move(left)), there(std::move(right));
  constexpr int kFrames = 2000;
  auto send = [](Channel& channel) {
    for (int i = 0; i < kFrames; ++i) {
      channel.send([&](OutBuffer& out) {
        out.push(1, std::to_string(i) + std::string(static_cast<size_t>(i % 3000), 'x'));
      });
    }
  };
  auto receive = [](Channel& channel, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; ++i) {
      Frame frame;
      EXPECT_TRUE(channel.receive(&frame, in_time()));
      bytes += frame.body.size();
    }
    return bytes;
  };
  std::thread a([&] { send(here); }), b([&] { send(there); }), c([&] { send(there); });
  auto other = std::async(std::launch::async, [&] { return receive(there, kFrames); });
  EXPECT_EQ(receive(here, 2 * kFrames), 2 * other.get());
  a.join();
  b.join();
  c.join();
}

TEST(TlsTest, WhatIsSentBehindTheHandshakeIsReadAtOnce) {
  Sessions sessions;
  EXPECT_EQ(sessions.here->handshake(), IoStatus::kWouldBlock);
  EXPECT_EQ(sessions.there->handshake(), IoStatus::kWouldBlock);
  EXPECT_EQ(sessions.here->handshake(), IoStatus::kDone);
  ASSERT_EQ(sessions.here->write("hello").status, IoStatus::kDone);
  EXPECT_EQ(sessions.there->handshake(), IoStatus::kDone);
  EXPECT_TRUE(sessions.there->has_more());
  EXPECT_EQ(read_all(*sessions.there, 5), "hello");
}

TEST(TlsTest, KeysAreReplaced) {
  Sessions sessions;
  sessions.shake_hands();
  sessions.here->set_records_per_key(3);
  std::string sent;
  for (int i = 0; i < 50; ++i) {
    std::string text = std::to_string(i);
    ASSERT_EQ(sessions.here->write(text).bytes, text.size());
    sent += text;
  }
  EXPECT_EQ(read_all(*sessions.there, sent.size()), sent);
}

// The answer to a peer that asks for new keys may not fit into the socket.
TEST(TlsTest, APeerMayAskForNewKeysWhileNothingCanBeSent) {
  Sessions sessions(4096);
  sessions.shake_hands();
  std::string sent(100'000, 'a'), received;
  size_t at = 0;
  while (sessions.there->write(std::string_view(sent).substr(at)).status != IoStatus::kWouldBlock) {
    FAIL() << "the socket takes everything";
  }
  const OpenSsl& api = openssl();
  ASSERT_EQ(api.SSL_key_update(sessions.here->ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
  ASSERT_EQ(sessions.here->write("please").status, IoStatus::kDone);
  EXPECT_EQ(read_all(*sessions.there, 6), "please");
  EXPECT_TRUE(sessions.there->has_unsent());
  // The answer goes after the waiting bytes, and everything arrives.
  std::string answer = "with new keys";
  bool answered = false;
  char buffer[5000];
  while (received.size() < sent.size() + answer.size()) {
    auto moved = sessions.there->write(answered ? "" : answer);
    answered = answered || moved.bytes == answer.size();
    auto [status, bytes] = sessions.here->read(buffer);
    ASSERT_NE(status, IoStatus::kClosed);
    received.append(buffer, bytes);
  }
  EXPECT_EQ(received, sent + answer);
}

TEST(TlsTest, APeerThatClosesIsSeenByBothDirections) {
  auto [left, right] = tls_pair();
  Channel there(std::move(right));
  {
    Channel here(std::move(left));
    ASSERT_TRUE(here.send([](OutBuffer& out) { out.push(1, "last"); }));
  }
  Frame frame;
  ASSERT_TRUE(there.receive(&frame, in_time()));
  EXPECT_EQ(frame.body, "last");
  EXPECT_FALSE(there.receive(&frame, in_time()));
  EXPECT_EQ(there.try_receive(&frame), IoStatus::kClosed);
  // The first write may still go out; the peer's system answers that the connection is closed.
  EXPECT_TRUE(eventually(
      [&] { return !there.send([](OutBuffer& out) { out.push(1, "nobody reads this"); }); }));
}

TEST(TlsTest, DescriptorsAreRefusedWhereTheyAreAdded) {
  Channel channel(tls_pair().first);
  Error error = error_of([&] {
    channel.send([&](OutBuffer& out) { out.push(1, "", {{channel.fd(), nullptr}}); });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("only a Unix socket carries descriptors"));
}

TEST(TlsTest, AFrameThatClaimsDescriptorsIsCorrupt) {
  Sessions sessions;
  sessions.shake_hands();
  std::string frame("MNT1\0\0\0\0\1\0\1\0", 12);  // no body, type 1, one descriptor
  ASSERT_EQ(sessions.here->write(frame).bytes, frame.size());
  struct Rest final : Transport {  // of the session, as a transport
    explicit Rest(TlsSession& session) : Transport(UniqueFd()), session_(session) {}
    bool carries_fds() const override { return false; }
    std::string peer() const override { return ""; }
    Moved read(std::span<char> into, std::deque<UniqueFd>&, Blocking) override {
      return {IoStatus::kDone, read_all(session_, 12).copy(into.data(), 12)};
    }
    Moved write(std::string_view, std::span<const int>) override { return {IoStatus::kClosed}; }
    TlsSession& session_;
  } rest(*sessions.there);
  FrameDecoder decoder;
  ASSERT_EQ(decoder.receive(rest, Blocking::kNo), IoStatus::kDone);
  Frame received;
  EXPECT_EQ(error_of([&] { decoder.next(&received); }).kind(), ErrorKind::kCorrupt);
}

TEST(TlsTest, AShortTokenIsRefused) {
  Error error = error_of([] { TlsKey("0123456789abcde"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("has 15 bytes; it must have at least 16"));
}

TEST(TlsTest, NoThreadIsStarted) {
  auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
  };
  auto before = threads();
  tls_pair();
  EXPECT_EQ(threads(), before);
}

// Workers are forked from a process that may have used OpenSSL: their random numbers must differ.
TEST(TlsTest, ForkedProcessesHaveRandomNumbersOfTheirOwn) {
  tls_pair();  // the generator has its state
  std::vector<std::string> hellos;
  for (int i = 0; i < 3; ++i) {
    auto [client, server] = tcp_pair();
    pid_t child = ::fork();
    if (child == 0) {
      TlsHandshake(TlsKey(kTestToken), std::move(client), TlsHandshake::kConnects).step();
      ::_exit(0);
    }
    client.reset();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    char record[2000];
    ssize_t size = ::recv(server.get(), record, sizeof(record), MSG_DONTWAIT);
    ASSERT_GT(size, 100);
    // Record header, message header, version; then the client's 32 random bytes.
    hellos.emplace_back(record + 11, 32);
  }
  EXPECT_NE(hellos[0], hellos[1]);
  EXPECT_NE(hellos[0], hellos[2]);
  EXPECT_NE(hellos[1], hellos[2]);
}

TEST(TlsTest, TheFunctionsAreThoseOfTheSystemsLibrary) {
  Dl_info info{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(openssl().SSL_new), &info), 0);
  EXPECT_THAT(info.dli_fname, HasSubstr("libssl.so.3"));
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(openssl().HMAC), &info), 0);
  EXPECT_THAT(info.dli_fname, HasSubstr("libcrypto.so.3"));
}

}  // namespace
}  // namespace manta
