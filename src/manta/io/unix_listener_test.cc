#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <filesystem>
#include <list>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/io/unix_listener_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;

Deadline long_enough() { return Deadline::after(50s); }

class UnixListenerTest : public testing::Test {
 protected:
  UnixListenerTest()
      : path_((std::filesystem::path(testing::TempDir()) /
               str("manta-unix_listener_test-", ::getpid()))
                  .string()) {
    listener_ =
        std::make_unique<UnixListener>(loop_, path_, [this](const auto& channel, Frame& frame) {
          if (frame.body != "hello") throw Error(ErrorKind::kCorrupt, "it does not say hello");
          channel->trust();
          channel->start([this](Frame& next) { fds_ += next.fds.size(); },
                         [](const std::string&) {});
          channel->out().push(1, "welcome");
          members_.push_back(channel);
        });
    thread_ = std::thread([this] { loop_.context.run(); });
  }
  ~UnixListenerTest() override {
    {
      std::lock_guard lock(loop_.mutex);
      listener_.reset();
      for (auto& each : members_) each->close();
    }
    work_.reset();
    thread_.join();
  }

  // Whether the peer is accepted.
  bool say(Channel& channel, const std::string& text, std::vector<OutgoingFd> fds = {}) {
    channel.send([&](OutBuffer& out) { out.push(1, text, std::move(fds)); });
    Frame frame;
    return channel.receive(&frame, long_enough()) && frame.body == "welcome";
  }

  EventLoop loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.context.get_executor()};
  const std::string path_;
  std::list<std::shared_ptr<AsyncChannel>> members_;
  std::atomic<size_t> fds_ = 0;
  std::unique_ptr<UnixListener> listener_;
  std::thread thread_;
};

TEST_F(UnixListenerTest, TheFirstFrameDecides) {
  Channel polite(connect_unix(path_)), rude(connect_unix(path_)), loud(connect_unix(path_)),
      laden(connect_unix(path_));
  EXPECT_FALSE(say(rude, "let me in"));
  EXPECT_FALSE(say(loud, std::string(4097, 'x')));
  EXPECT_FALSE(say(laden, "hello", {{laden.fd(), nullptr}}));
  ASSERT_TRUE(say(polite, "hello"));
  // Afterwards it may send large frames, and descriptors.
  polite.send([&](OutBuffer& out) {
    out.push(1, std::string(1 << 20, 'x'), {{polite.fd(), nullptr}, {polite.fd(), nullptr}});
  });
  EXPECT_TRUE(eventually([&] { return fds_ == 2; }));
}

TEST_F(UnixListenerTest, APeerThatComesWhileThereAreTooManyStrangersGetsAPlaceLater) {
  std::list<Channel> silent;
  for (int i = 0; i < 64; ++i) silent.emplace_back(connect_unix(path_));
  Channel late(connect_unix(path_));
  late.send([&](OutBuffer& out) { out.push(1, "hello"); });
  Frame frame;
  EXPECT_THROW(late.receive(&frame, Deadline::after(50ms)), Error);
  silent.pop_front();
  ASSERT_TRUE(late.receive(&frame, long_enough()));
  EXPECT_EQ(frame.body, "welcome");
  EXPECT_TRUE(say(silent.front(), "hello"));
}

TEST_F(UnixListenerTest, ItsFileAndItsStrangersGoWithIt) {
  Channel stranger(connect_unix(path_)), member(connect_unix(path_));
  ASSERT_TRUE(say(member, "hello"));
  EXPECT_TRUE(std::filesystem::exists(path_));
  {
    std::lock_guard lock(loop_.mutex);
    listener_.reset();
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  Frame frame;
  EXPECT_FALSE(stranger.receive(&frame, long_enough()));
  EXPECT_EQ(member.try_receive(&frame), IoStatus::kWouldBlock);
}

}  // namespace
}  // namespace manta
