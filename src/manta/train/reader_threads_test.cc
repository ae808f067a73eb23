#include <gtest/gtest.h>

#include "manta/base/error_of_internal.h"
#include "manta/train/messages_internal.h"
#include "manta/train/reader_threads_internal.h"

namespace manta::train {
namespace {

// The driver's answers are there before the questions.
template <class Message>
void answer(Channel& driver, const Message& message) {
  driver.send([&](OutBuffer& out) { encode_message<ToMember>(out, message); });
}

TEST(ReaderThreadsTest, AreWhatTheDriverSaidLast) {
  auto [ours, drivers] = socket_pair();
  ReaderThreads threads(std::make_shared<Channel>(std::move(ours)));
  {
    Channel driver(std::move(drivers));
    answer(driver, UseThreads{3});
    EXPECT_EQ(threads.now(), 3);
    answer(driver, UseThreads{-1});
    EXPECT_EQ(threads.now(), 1);
    answer(driver, UseThreads{2});
    EXPECT_EQ(threads.now(), 2);
  }
  EXPECT_EQ(threads.now(), 2) << "a driver that has gone says nothing else";
}

TEST(ReaderThreadsTest, AnotherAnswerIsAnError) {
  auto [ours, drivers] = socket_pair();
  ReaderThreads threads(std::make_shared<Channel>(std::move(ours)));
  Channel driver(std::move(drivers));
  answer(driver, Writing{});
  EXPECT_EQ(error_of([&] { threads.now(); }).kind(), ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace manta::train
