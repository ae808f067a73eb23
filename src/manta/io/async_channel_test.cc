#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <boost/asio/executor_work_guard.hpp>
#include <future>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/io/async_channel_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/io/transport_pair_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;

// Every transport behaves the same.
class AsyncChannelTest : public testing::TestWithParam<TransportKind> {
 protected:
  AsyncChannelTest()
      : work_(loop_.context.get_executor()), thread_([this] { loop_.context.run(); }) {
    auto [left, right] = GetParam().make();
    std::lock_guard lock(loop_.mutex);
    carries_fds_ = left->carries_fds();
    async_ = std::make_shared<AsyncChannel>(loop_, std::move(left), kMaxFrameBody);
    peer_ = std::make_unique<Channel>(std::move(right));
  }
  ~AsyncChannelTest() override {
    {
      std::lock_guard lock(loop_.mutex);
      async_->close();
    }
    work_.reset();
    thread_.join();
  }

  void start(AsyncChannel::OnFrame on_frame) {
    std::lock_guard lock(loop_.mutex);
    async_->start(std::move(on_frame), [this](const std::string& why) {
      if (++closed_ == 1) why_.set_value(why);
    });
  }
  void start_echo() {
    start([this](Frame& frame) {
      std::vector<OutgoingFd> fds;
      for (auto& fd : frame.fds) {
        auto owner = std::make_shared<UniqueFd>(std::move(fd));
        fds.push_back({owner->get(), owner});
      }
      async_->out().push(frame.type, frame.body, std::move(fds));
    });
  }
  // Why it was closed; fails if it is not.
  std::string closed_because() {
    auto why = why_.get_future();
    if (why.wait_for(10s) != std::future_status::ready) return "(not closed)";
    return why.get();
  }
  // Returns when everything posted before has been done.
  void settle() {
    std::promise<void> done;
    loop_.post([&] { done.set_value(); });
    done.get_future().wait();
  }

  EventLoop loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::shared_ptr<AsyncChannel> async_;
  std::unique_ptr<Channel> peer_;
  bool carries_fds_ = false;
  std::promise<std::string> why_;
  std::atomic<int> closed_ = 0;
  std::thread thread_;
};

TEST_P(AsyncChannelTest, Echoes) {
  start_echo();
  for (size_t size : {0u, 1u, 1000u, 300000u, 3000000u}) {
    std::string body(size, 'x');
    std::vector<OutgoingFd> fds;
    if (carries_fds_) {
      auto owner = std::make_shared<UniqueFd>(::memfd_create("async_channel_test", MFD_CLOEXEC));
      fds.push_back({owner->get(), owner});
    }
    std::thread sender([&] { peer_->send([&](OutBuffer& out) { out.push(7, body, fds); }); });
    Frame frame;
    EXPECT_TRUE(peer_->receive(&frame, Deadline::after(30s)));
    sender.join();
    EXPECT_EQ(frame.type, 7);
    EXPECT_TRUE(frame.body == body);
    EXPECT_EQ(frame.fds.size(), carries_fds_ ? 1u : 0u);
  }
}

TEST_P(AsyncChannelTest, ManySmallFramesStayInOrder) {
  start_echo();
  constexpr int kFrames = 20000;
  std::thread sender([&] {
    for (int i = 0; i < kFrames; ++i) {
      peer_->send([&](OutBuffer& out) { out.push(1, std::to_string(i)); });
    }
  });
  for (int i = 0; i < kFrames; ++i) {
    Frame frame;
    ASSERT_TRUE(peer_->receive(&frame, Deadline::after(10s)));
    ASSERT_EQ(frame.body, std::to_string(i));
  }
  sender.join();
}

TEST_P(AsyncChannelTest, ACleanCloseIsToldOnceWithoutAReason) {
  start_echo();
  peer_.reset();
  EXPECT_EQ(closed_because(), "");
  settle();
  EXPECT_EQ(closed_, 1);
}

TEST_P(AsyncChannelTest, WhatCameBeforeTheCloseIsHandledFirst) {
  std::string seen;
  start([&](Frame& frame) { seen += frame.body; });
  ASSERT_TRUE(peer_->send([](OutBuffer& out) {
    out.push(1, "a");
    out.push(1, std::string(100000, 'b'));
    out.push(1, "c");
  }));
  peer_.reset();
  EXPECT_EQ(closed_because(), "");
  EXPECT_EQ(seen, "a" + std::string(100000, 'b') + "c");
}

TEST_P(AsyncChannelTest, GarbageIsToldOnceWithTheReason) {
  start_echo();
  ASSERT_EQ(::write(peer_->fd(), "this is not a frame", 19), 19);
  EXPECT_THAT(closed_because(), testing::HasSubstr(GetParam().encrypts ? "the encrypted connection"
                                                                       : "wrong magic number"));
  settle();
  EXPECT_EQ(closed_, 1);
  // The peer is disconnected: it sees the end, or the alert before it.
  try {
    Frame frame;
    EXPECT_FALSE(peer_->receive(&frame, Deadline::after(10s)));
  } catch (const Error& error) {
    EXPECT_FALSE(carries_fds_) << error.what();
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  }
}

TEST_P(AsyncChannelTest, AnErrorOfTheHandlerClosesWithItsMessage) {
  start([](Frame&) { throw Error(ErrorKind::kCorrupt, "no greeting"); });
  ASSERT_TRUE(peer_->send([](OutBuffer& out) {
    out.push(1, "a");
    out.push(2, "b");
  }));
  EXPECT_EQ(closed_because(), "no greeting");
  settle();
  EXPECT_EQ(closed_, 1);
}

TEST_P(AsyncChannelTest, NoCallbackComesAfterClose) {
  std::atomic<int> frames = 0;
  start([&](Frame&) {
    ++frames;
    async_->close();
  });
  ASSERT_TRUE(peer_->send([](OutBuffer& out) {
    out.push(1, "a");
    out.push(2, "b");
  }));
  Frame frame;
  EXPECT_FALSE(peer_->receive(&frame, Deadline::after(10s)));
  settle();
  EXPECT_EQ(frames, 1);
  EXPECT_EQ(closed_, 0);
}

TEST_P(AsyncChannelTest, FlushAndCloseSendsWhatIsPending) {
  start_echo();
  {
    std::lock_guard lock(loop_.mutex);
    async_->out().push(1, "goodbye");
    async_->flush_and_close();
  }
  Frame frame;
  ASSERT_TRUE(peer_->receive(&frame, Deadline::after(10s)));
  EXPECT_EQ(frame.body, "goodbye");
  EXPECT_FALSE(peer_->receive(&frame, Deadline::after(10s)));
}

TEST_P(AsyncChannelTest, DrainHandlesEverythingAtOnce) {
  int frames = 0;
  std::unique_lock lock(loop_.mutex);  // the loop cannot read meanwhile
  async_->start([&](Frame&) { ++frames; },
                [this](const std::string& why) {
                  if (++closed_ == 1) why_.set_value(why);
                });
  ASSERT_TRUE(peer_->send([](OutBuffer& out) {
    for (int i = 0; i < 100; ++i) out.push(1, std::string(1000, 'x'));
  }));
  async_->drain();
  EXPECT_EQ(frames, 100);
  peer_.reset();
  async_->drain();
  EXPECT_EQ(closed_, 1);
  async_->drain();  // closed: nothing to do
  EXPECT_EQ(closed_, 1);
}

TEST_P(AsyncChannelTest, APausedChannelHandsOutNothingUntilItGoesOn) {
  std::atomic<int> frames = 0;
  start([&](Frame&) {
    if (++frames == 10) async_->pause();
  });
  ASSERT_TRUE(peer_->send([](OutBuffer& out) {
    for (int i = 0; i < 30; ++i) out.push(1, std::string(1000, 'x'));
  }));
  EXPECT_TRUE(eventually([&] { return frames == 10; }));
  settle();
  settle();
  EXPECT_EQ(frames, 10);
  peer_.reset();  // seen after its frames
  {
    std::lock_guard lock(loop_.mutex);
    async_->resume();
    async_->resume();
  }
  EXPECT_EQ(closed_because(), "");
  EXPECT_EQ(frames, 30);
}

TEST_P(AsyncChannelTest, APausedChannelCanBeDrained) {
  int frames = 0;
  std::unique_lock lock(loop_.mutex);
  async_->start(
      [&](Frame&) {
        ++frames;
        async_->pause();
      },
      [](const std::string&) {});
  ASSERT_TRUE(peer_->send([](OutBuffer& out) {
    for (int i = 0; i < 100; ++i) out.push(1, std::string(1000, 'x'));
  }));
  async_->drain();
  EXPECT_EQ(frames, 100);
}

TEST_P(AsyncChannelTest, ASenderOfMuchDataIsToldWhenItHasBeenSent) {
  start([](Frame&) {});
  std::atomic<int> sent = 0;
  constexpr int kFrames = 30;
  {
    std::lock_guard lock(loop_.mutex);
    for (int i = 0; i < kFrames; ++i) async_->out().push(1, std::string(1 << 20, 'x'));
    async_->when_sent([&] { ++sent; });
  }
  settle();
  EXPECT_EQ(sent, 0);  // more than the socket takes unread
  Frame frame;
  for (int i = 0; i < kFrames; ++i) ASSERT_TRUE(peer_->receive(&frame, Deadline::after(30s)));
  EXPECT_TRUE(eventually([&] { return sent == 1; }));
  {
    std::lock_guard lock(loop_.mutex);
    async_->when_sent([&] { ++sent; });  // nothing is pending
  }
  EXPECT_TRUE(eventually([&] { return sent == 2; }));
}

TEST_P(AsyncChannelTest, ASlowReaderGetsEverything) {
  start_echo();
  constexpr int kFrames = 50;
  {
    std::lock_guard lock(loop_.mutex);
    for (uint16_t i = 0; i < kFrames; ++i) {
      async_->out().push(i, std::string(1 << 20, static_cast<char>('a' + i % 26)));
    }
  }
  for (uint16_t i = 0; i < kFrames; ++i) {
    if (i % 5 == 0) std::this_thread::sleep_for(10ms);
    Frame frame;
    ASSERT_TRUE(peer_->receive(&frame, Deadline::after(10s)));
    ASSERT_EQ(frame.type, i);
    ASSERT_TRUE(frame.body == std::string(1 << 20, static_cast<char>('a' + i % 26)));
  }
  ASSERT_TRUE(peer_->send([](OutBuffer& out) { out.push(99, "still there"); }));
  Frame frame;
  ASSERT_TRUE(peer_->receive(&frame, Deadline::after(10s)));
  EXPECT_EQ(frame.body, "still there");
}

TEST_P(AsyncChannelTest, APeerThatGoesWhileMuchIsPendingIsToldOnce) {
  start_echo();
  {
    std::lock_guard lock(loop_.mutex);
    async_->out().push(1, std::string(20 << 20, 'x'));
  }
  std::this_thread::sleep_for(10ms);
  peer_.reset();
  EXPECT_EQ(closed_because(), "");
  settle();
  EXPECT_EQ(closed_, 1);
}

TEST_P(AsyncChannelTest, AThreadGoesOnWithTheConnection) {
  std::promise<std::unique_ptr<Transport>> taken;
  start([&](Frame&) { taken.set_value(async_->take_transport()); });
  ASSERT_TRUE(peer_->send([](OutBuffer& out) { out.push(1, "send me the rest"); }));
  Channel rest(taken.get_future().get());
  std::thread sender(
      [&] { rest.send([](OutBuffer& out) { out.push(2, std::string(1 << 20, 'x')); }); });
  Frame frame;
  EXPECT_TRUE(peer_->receive(&frame, Deadline::after(30s)));
  EXPECT_EQ(frame.body.size(), 1u << 20);
  sender.join();
  ASSERT_TRUE(peer_->send([](OutBuffer& out) { out.push(3, "thanks"); }));
  EXPECT_TRUE(rest.receive(&frame, Deadline::after(30s)));
  EXPECT_EQ(frame.body, "thanks");
  EXPECT_EQ(closed_, 0);
}

TEST_P(AsyncChannelTest, APeerThatSendsSeveralFramesKeepsItsChannel) {
  start([&](Frame&) { async_->take_transport(); });
  ASSERT_TRUE(peer_->send([](OutBuffer& out) {
    out.push(1, "send me the rest");
    out.push(1, "now");
  }));
  EXPECT_THAT(closed_because(), testing::HasSubstr("goes on before it has got"));
}

// Nothing moves unless both ends write whenever they can, whatever they are doing.
TEST_P(AsyncChannelTest, BothEndsSendMuchAtOnce) {
  constexpr int kFrames = 40;
  std::string body(200'000, 'x');
  std::atomic<int> arrived = 0;
  start([&](Frame& frame) { arrived += frame.body == body; });
  {
    std::lock_guard lock(loop_.mutex);
    for (int i = 0; i < kFrames; ++i) async_->out().push(1, body);
  }
  std::thread sender([&] {
    for (int i = 0; i < kFrames; ++i) peer_->send([&](OutBuffer& out) { out.push(1, body); });
  });
  for (int i = 0; i < kFrames; ++i) {
    Frame frame;
    EXPECT_TRUE(peer_->receive(&frame, Deadline::after(30s)));
    EXPECT_TRUE(frame.body == body);
  }
  sender.join();
  EXPECT_TRUE(eventually([&] { return arrived == kFrames; }));
}

INSTANTIATE_TEST_SUITE_P(Transports, AsyncChannelTest, kTransportKinds, name_of_kind);

}  // namespace
}  // namespace manta
