// A worker's side of a run, with this test as its driver.

#include <gmock/gmock.h>

#include <thread>

#include "manta/base/eventually_internal.h"
#include "manta/train/session_internal.h"

namespace manta::train {
namespace {

// The worker receives the driver's messages even while the driver does not read the loop's.
TEST(SessionTest, HearsADriverThatDoesNotRead) {
  auto [ours, theirs] = socket_pair();
  BeginTraining begin;
  begin.world_size = 1;
  begin.timeout_ms = 40'000;
  begin.max_in_flight = 1;
  Session session(std::make_shared<Channel>(std::move(ours)), std::move(begin));
  auto driver = std::make_unique<Channel>(std::move(theirs));
  std::thread loop([&] {
    session.report({{"text", std::string(8 << 20, 'x')}}, nullptr);  // more than the socket takes
  });
  ASSERT_TRUE(driver->wait_readable(Deadline::after(std::chrono::seconds(30))));
  auto say = [&](const auto& message) {
    driver->send([&](OutBuffer& out) { encode_message<ToMember>(out, message); });
  };
  say(WantAsks{});
  say(StopFrom{1});
  bool told = false;
  EXPECT_NO_THROW(told = eventually([&] { return session.should_stop(); }));
  EXPECT_TRUE(told);
  Frame frame;
  bool reported = false, answered = false;
  while (!reported || !answered) {
    ASSERT_TRUE(driver->receive(&frame, Deadline::after(std::chrono::seconds(30))));
    auto message = decode_message<FromMember>(frame);
    reported = reported || std::holds_alternative<SendReport>(message);
    answered = answered || std::holds_alternative<SendAsks>(message);
  }
  loop.join();
  driver.reset();
}

}  // namespace
}  // namespace manta::train
