#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/io/channel_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() {
    folder_ = std::filesystem::path(testing::TempDir()) / str("manta-channel_test-", ::getpid());
    std::filesystem::create_directories(folder_);
  }
  ~ChannelTest() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

TEST_F(ChannelTest, ASilentPeerTimesOut) {
  auto [left, right] = socket_pair();
  Channel channel(std::move(left));
  Frame frame;
  auto begin = Clock::now();
  try {
    channel.receive(&frame, Deadline::after(20ms));
    ADD_FAILURE() << "threw nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  }
  EXPECT_GE(Clock::now() - begin, 20ms);
  EXPECT_EQ(channel.try_receive(&frame), IoStatus::kWouldBlock);
}

// The part of a frame that the socket takes is sent at once; the next send sends the rest.
TEST_F(ChannelTest, ATryToSendDoesNotWait) {
  auto [left, right] = socket_pair();
  Channel channel(std::move(left)), peer(std::move(right));
  const std::string body(1 << 20, 'x');
  auto add = [&](OutBuffer& out) { out.push(1, body); };
  EXPECT_TRUE(channel.try_send(add));              // more than the socket takes
  EXPECT_FALSE(channel.try_send(add));             // the peer has not taken it
  std::thread sender([&] { channel.send(add); });  // waits for the peer, too
  Frame frame;
  ASSERT_TRUE(peer.wait_readable(Deadline::after(30s)));
  EXPECT_FALSE(channel.try_send(add));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(peer.receive(&frame, Deadline::after(30s)));
    EXPECT_EQ(frame.body, body);
  }
  sender.join();
  EXPECT_TRUE(channel.try_send([](OutBuffer& out) { out.push(2, "y"); }));
  ASSERT_TRUE(peer.receive(&frame, Deadline::after(30s)));
  EXPECT_EQ(frame.body, "y");
}

TEST_F(ChannelTest, HalfAFrameTimesOutAndIsGoneOnWithLater) {
  auto [left, right] = socket_pair();
  Channel channel(std::move(left));
  OutBuffer out;
  out.push(1, std::string(1 << 20, 'x'));
  ASSERT_EQ(out.flush(right.get()), IoStatus::kWouldBlock);
  Frame frame;
  EXPECT_THROW(channel.receive(&frame, Deadline::after(20ms)), Error);
  std::thread writer([&, fd = right.get()] {
    while (out.flush(fd) == IoStatus::kWouldBlock) std::this_thread::sleep_for(1ms);
  });
  EXPECT_TRUE(channel.receive(&frame, Deadline::after(30s)));
  writer.join();
  EXPECT_EQ(frame.body.size(), 1u << 20);
}

TEST_F(ChannelTest, WhatIsThereIsReceivedAfterTheDeadline) {
  auto [left, right] = socket_pair();
  Channel sender(std::move(left)), receiver(std::move(right));
  ASSERT_TRUE(sender.send([](OutBuffer& out) {
    out.push(1, "a");
    out.push(2, "b");
  }));
  Frame frame;
  EXPECT_TRUE(receiver.receive(&frame, Deadline::after(-1s)));
  EXPECT_EQ(frame.body, "a");
  EXPECT_TRUE(receiver.next_buffered(&frame));
  EXPECT_EQ(frame.body, "b");
  EXPECT_FALSE(receiver.next_buffered(&frame));
}

TEST_F(ChannelTest, AClosedPeerEndsReceiveAndSend) {
  auto [left, right] = socket_pair();
  Channel channel(std::move(left));
  right.reset();
  Frame frame;
  EXPECT_FALSE(channel.receive(&frame, Deadline::never()));
  EXPECT_FALSE(channel.receive(&frame, Deadline::after(10s)));
  EXPECT_EQ(channel.try_receive(&frame), IoStatus::kClosed);
  EXPECT_FALSE(channel.send([](OutBuffer& out) { out.push(1, "x"); }));
}

TEST_F(ChannelTest, ThreadsThatSendAtOnceDoNotMixFrames) {
  constexpr int kThreads = 4, kFrames = 500;
  auto [left, right] = socket_pair();
  Channel sender(std::move(left)), receiver(std::move(right));
  std::vector<std::thread> threads;
  for (uint16_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&sender, t] {
      for (int i = 0; i < kFrames; ++i) {
        size_t size = static_cast<size_t>(i * 37 % 5000);
        sender.send([&](OutBuffer& out) {
          out.push(t, str(i, ":") + std::string(size, static_cast<char>('a' + t)));
        });
      }
    });
  }
  std::vector<int> next(kThreads);
  for (int received = 0; received < kThreads * kFrames; ++received) {
    Frame frame;
    ASSERT_TRUE(receiver.receive(&frame, Deadline::after(30s)));
    ASSERT_LT(frame.type, kThreads);
    int i = next[frame.type]++;
    auto expected = str(i, ":") + std::string(static_cast<size_t>(i * 37 % 5000),
                                              static_cast<char>('a' + frame.type));
    ASSERT_EQ(frame.body, expected);
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(ChannelTest, ConnectsToAListener) {
  UniqueFd server = listen_unix(path("socket"));
  Channel client(connect_unix(path("socket")));
  Channel accepted(UniqueFd(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  ASSERT_TRUE(client.send([](OutBuffer& out) { out.push(5, "hello"); }));
  Frame frame;
  ASSERT_TRUE(accepted.receive(&frame, Deadline::after(10s)));
  EXPECT_EQ(frame.body, "hello");
}

// A temporary folder may have any path; the system's limit for a socket's is 107 characters.
TEST_F(ChannelTest, TheFolderOfASocketMayHaveALongPath) {
  std::string folder = path(std::string(200, 'd') + "/" + std::string(200, 'e'));
  std::filesystem::create_directories(folder);
  UniqueFd server = listen_unix(folder + "/socket");
  Channel client(connect_unix(folder + "/socket"));
  Channel accepted(UniqueFd(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  ASSERT_TRUE(client.send([](OutBuffer& out) { out.push(5, "hello"); }));
  Frame frame;
  ASSERT_TRUE(accepted.receive(&frame, Deadline::after(10s)));
  EXPECT_EQ(frame.body, "hello");
}

TEST_F(ChannelTest, OnlyThisUserMayConnect) {
  mode_t before = ::umask(0);  // the strictest test: nothing else takes permissions away
  UniqueFd server = listen_unix(path("socket"));
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat(path("socket").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(ChannelTest, ErrorsNameThePath) {
  std::string taken = path("taken"), missing = path("missing"), deep = path("no/such/folder");
  std::string longest = path(std::string(80, 'x'));
  UniqueFd server = listen_unix(taken);
  UniqueFd allowed = listen_unix(longest);
  struct Case {
    const char* name;
    std::function<UniqueFd()> open;
    ErrorKind kind;
    std::string message;
  };
  for (const auto& [name, open, kind, message] :
       {Case{"taken", [&] { return listen_unix(taken); }, ErrorKind::kIo,
             "listening on '" + taken + "': Address already in use"},
        Case{"no folder", [&] { return listen_unix(deep); }, ErrorKind::kIo,
             "listening on '" + deep + "': No such file"},
        Case{"missing", [&] { return connect_unix(missing); }, ErrorKind::kIo,
             "connecting to '" + missing + "': No such file"},
        Case{"long listen", [&] { return listen_unix(longest + "x"); }, ErrorKind::kInvalidArgument,
             "has 81 characters; it must have 1 to 80"},
        Case{"long connect", [&] { return connect_unix(longest + "x"); },
             ErrorKind::kInvalidArgument, "has 81 characters; it must have 1 to 80"}}) {
    SCOPED_TRACE(name);
    try {
      open();
      ADD_FAILURE() << "threw nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace manta
