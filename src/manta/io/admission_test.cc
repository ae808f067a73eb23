#include <gtest/gtest.h>

#include "manta/io/admission_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using Verdict = Admission::Verdict;

class AdmissionTest : public testing::Test {
 protected:
  Verdict arrive(const std::string& source) { return admission_.arrive(++last_, source, now_); }
  std::vector<Verdict> arrive(const std::string& source, int count) {
    std::vector<Verdict> verdicts;
    for (int i = 0; i < count; ++i) verdicts.push_back(arrive(source));
    return verdicts;
  }

  Admission admission_{{.max_strangers = 4, .max_per_source = 2, .max_waiting = 3}};
  Admission::Id last_ = 0;
  Clock::time_point now_{};
};

TEST_F(AdmissionTest, ASourceHasItsPartOfThePlaces) {
  using enum Verdict;
  EXPECT_EQ(arrive("a", 3), (std::vector{kAdmit, kAdmit, kWait}));
  EXPECT_EQ(arrive("b", 2), (std::vector{kAdmit, kAdmit}));
  EXPECT_EQ(arrive("c"), kWait);  // no place is free
  EXPECT_EQ(admission_.next(), std::nullopt);
}

TEST_F(AdmissionTest, WaitingPeersComeInOrderIfTheirSourceHasAPlace) {
  arrive("a", 2);
  arrive("b", 2);
  arrive("a");  // 5
  arrive("c");  // 6
  admission_.leave("b");
  EXPECT_EQ(admission_.next(), 6u);  // "a" still has all of its places
  EXPECT_EQ(admission_.next(), std::nullopt);
  admission_.leave("a");
  EXPECT_EQ(admission_.next(), 5u);
  EXPECT_EQ(admission_.next(), std::nullopt);
}

TEST_F(AdmissionTest, NoPeerOvertakesAnotherOfItsSource) {
  arrive("a", 3);
  admission_.leave("a");
  EXPECT_EQ(arrive("a"), Verdict::kWait);
  EXPECT_EQ(admission_.next(), 3u);
}

TEST_F(AdmissionTest, AFullQueueAcceptsNoPeerUntilItsPatienceEnds) {
  arrive("a", 4);
  EXPECT_TRUE(admission_.may_accept());
  arrive("a");
  EXPECT_FALSE(admission_.may_accept());
  EXPECT_EQ(admission_.shed_at(), now_ + 2s);
  now_ += 1999ms;
  EXPECT_TRUE(admission_.shed(now_).empty());
  now_ += 1ms;
  EXPECT_EQ(admission_.shed(now_), (std::vector<Admission::Id>{3, 4, 5}));
  EXPECT_EQ(admission_.shed_at(), std::nullopt);
}

TEST_F(AdmissionTest, ASourceThatLostItsPartMayNotWaitForAWhile) {
  arrive("a", 5);
  now_ += 2s;
  ASSERT_EQ(admission_.shed(now_).size(), 3u);
  EXPECT_EQ(arrive("a"), Verdict::kRefuse);
  EXPECT_EQ(arrive("b"), Verdict::kAdmit);
  admission_.leave("a");
  EXPECT_EQ(arrive("a"), Verdict::kAdmit);  // one of its places is free
  now_ += 10s;
  EXPECT_EQ(arrive("a"), Verdict::kWait);
}

TEST_F(AdmissionTest, TheSourceWithMostOfTheQueueLosesItsPlaces) {
  arrive("a", 2);
  arrive("b", 2);
  arrive("c");     // 5
  arrive("a", 2);  // 6, 7
  now_ += 2s;
  EXPECT_EQ(admission_.shed(now_), (std::vector<Admission::Id>{6, 7}));
  admission_.leave("b");
  EXPECT_EQ(admission_.next(), 5u);
}

TEST_F(AdmissionTest, WithoutAQueueOthersWaitInTheKernel) {
  Admission queueless({.max_strangers = 2, .max_per_source = 2, .max_waiting = 0});
  EXPECT_EQ(queueless.arrive(1, "", now_), Verdict::kAdmit);
  EXPECT_EQ(queueless.arrive(2, "", now_), Verdict::kAdmit);
  EXPECT_FALSE(queueless.may_accept());
  EXPECT_EQ(queueless.shed_at(), std::nullopt);
  queueless.leave("");
  EXPECT_TRUE(queueless.may_accept());
}

}  // namespace
}  // namespace manta
