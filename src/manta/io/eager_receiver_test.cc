#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/io/eager_receiver_internal.h"

namespace manta {
namespace {

// Whether the thread of this process sleeps.
bool sleeps(pid_t thread) {
  std::ifstream file(str("/proc/self/task/", thread, "/stat"));
  std::string text(std::istreambuf_iterator<char>(file), {});
  size_t end = text.rfind(") ");
  return end != std::string::npos && text[end + 2] == 'S';
}

TEST(EagerReceiver, IsNotWokenWhenThePeerReads) {
  auto [left, right] = socket_pair();
  Channel channel(std::move(left)), peer(std::move(right));
  constexpr int kFrames = 50;
  std::atomic<pid_t> id{0};
  long switches = 0;  // how often it fell asleep
  std::thread waits([&] {
    id = ::gettid();
    EagerReceiver receiver(channel);
    Frame frame;
    rusage begin{}, end{};
    ::getrusage(RUSAGE_THREAD, &begin);
    for (int i = 0; i < kFrames; ++i) {
      channel.send([](OutBuffer& out) { out.push(1, "question"); });
      ASSERT_TRUE(receiver.receive(&frame));
    }
    ::getrusage(RUSAGE_THREAD, &end);
    switches = end.ru_nvcsw - begin.ru_nvcsw;
  });
  Frame frame;
  for (int i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(eventually([&] { return id != 0 && sleeps(id); }));
    ASSERT_TRUE(peer.receive(&frame, Deadline::after(std::chrono::seconds(10))));
    peer.send([](OutBuffer& out) { out.push(2, "answer"); });
  }
  waits.join();
  EXPECT_LT(switches, kFrames * 3 / 2) << "twice for each, if reading the question wakes it";
}

TEST(EagerReceiver, GetsEachFrameAndTheEnd) {
  auto [ours, theirs] = socket_pair();
  Channel channel(std::move(ours)), peer(std::move(theirs));
  constexpr uint16_t kFrames = 200;
  std::thread echo([&] {
    Frame frame;
    while (peer.receive(&frame, Deadline::never())) {
      peer.send([&](OutBuffer& out) { out.push(frame.type, frame.body); });
      if (frame.type == kFrames) break;
    }
    ::shutdown(peer.fd(), SHUT_RDWR);
  });
  EagerReceiver receiver(channel);
  Frame frame;
  for (uint16_t i = 1; i <= kFrames; ++i) {
    channel.send([&](OutBuffer& out) { out.push(i, "text"); });
    ASSERT_TRUE(receiver.receive(&frame));
    EXPECT_EQ(frame.type, i);
    EXPECT_EQ(frame.body, "text");
  }
  EXPECT_FALSE(receiver.receive(&frame));
  echo.join();
}

}  // namespace
}  // namespace manta
