#include <gmock/gmock.h>

#include <boost/asio/executor_work_guard.hpp>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/core/frame_pump_internal.h"
#include "manta/core/messages_internal.h"
#include "manta/core/patience_internal.h"
#include "manta/io/channel_internal.h"

namespace manta {
namespace {

// A pump between two channels of the test's: the process's and the hub's ends.
class FramePumpTest : public testing::Test {
 protected:
  FramePumpTest() {
    auto [process_ours, process_theirs] = socket_pair();
    auto [hub_ours, hub_theirs] = socket_pair();
    process_ = std::make_unique<Channel>(std::move(process_theirs));
    hub_ = std::make_unique<Channel>(std::move(hub_theirs));
    std::lock_guard lock(loop_.mutex);
    auto process = std::make_shared<AsyncChannel>(loop_, std::move(process_ours), kMaxFrameBody);
    to_hub_ = std::make_shared<AsyncChannel>(loop_, std::move(hub_ours), kMaxFrameBody);
    pump_ = std::make_shared<FramePump>(std::make_shared<NodeMemory>(1), 1, process);
    pump_->start([this] { ended_ = true; });
  }
  ~FramePumpTest() override {
    loop_.post([this] {
      pump_->close();
      to_hub_->close();
    });
    loop_.post([this] { loop_.context.stop(); });
    thread_.join();
  }

  // Sends frames of 64 KB until the pump takes no more, at most `most`.
  int send(int most) {
    std::string body(64 << 10, 'x');
    int sent = 0;
    try {
      for (; sent < most; ++sent) {
        OutBuffer out;
        out.push(7, body);
        Deadline deadline = Deadline::after(std::chrono::milliseconds(500));
        while (!out.empty()) {
          if (out.flush(process_->fd()) == IoStatus::kWouldBlock && deadline.passed()) return sent;
        }
      }
    } catch (const Error&) {
    }
    return sent;
  }
  void connect() {
    std::lock_guard lock(loop_.mutex);
    pump_->connect(to_hub_);
  }

  EventLoop loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.context.get_executor()};
  std::unique_ptr<Channel> process_, hub_;
  std::shared_ptr<AsyncChannel> to_hub_;
  std::shared_ptr<FramePump> pump_;
  std::atomic<bool> ended_ = false;
  std::thread thread_{[this] { loop_.context.run(); }};
};

constexpr int kFarTooMany = 1000;  // 64 MB

TEST_F(FramePumpTest, AProcessThatSaysMoreThanTheHubTakesHasToWait) {
  connect();
  int sent = send(kFarTooMany);
  EXPECT_LT(sent, kFarTooMany);
  Frame frame;
  // Once the hub reads, everything comes, and the process can send more.
  for (int i = 0; i < sent; ++i) {
    ASSERT_TRUE(hub_->receive(&frame, Deadline::after(kPatience)));
    EXPECT_EQ(frame.type, 7);
  }
}

TEST_F(FramePumpTest, AProcessWaitsUntilTheHubIsReached) {
  int sent = send(kFarTooMany);
  EXPECT_LT(sent, kFarTooMany);
  connect();
  Frame frame;
  for (int i = 0; i < sent; ++i) ASSERT_TRUE(hub_->receive(&frame, Deadline::after(kPatience)));
}

TEST_F(FramePumpTest, WhatAProcessSaidBeforeItsEndReachesASlowHub) {
  connect();
  constexpr int kSome = 14;  // more than the hub's socket takes, less than the pump does
  ASSERT_EQ(send(kSome), kSome);
  process_.reset();
  EXPECT_TRUE(eventually([&] { return ended_.load(); }));
  Frame frame;
  for (int i = 0; i < kSome; ++i) ASSERT_TRUE(hub_->receive(&frame, Deadline::after(kPatience)));
  EXPECT_FALSE(hub_->receive(&frame, Deadline::after(kPatience)));  // closed, and nothing is lost
}

}  // namespace
}  // namespace manta
