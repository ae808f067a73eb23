#include <gmock/gmock.h>

#include <map>
#include <random>

#include "manta/serve/request_queue_internal.h"

namespace manta::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

const Clock::time_point kStart = Clock::time_point() + seconds(1000);
const auto kLater = kStart + seconds(60);

TEST(RequestQueue, GivesWhatWaitsUpToABatch) {
  RequestQueue queue({.max_queued = 10, .max_batch = 3});
  for (RequestId id = 1; id <= 5; ++id) EXPECT_FALSE(queue.admit(id, kLater, kStart));
  EXPECT_THAT(queue.take(kStart), ElementsAre(1, 2, 3));
  EXPECT_EQ(queue.waiting(), 2);
  EXPECT_THAT(queue.take(kStart), ElementsAre(4, 5));
  EXPECT_THAT(queue.take(kStart), IsEmpty());
}

TEST(RequestQueue, WaitsForMoreIfItMay) {
  RequestQueue queue({.max_queued = 10, .max_batch = 3, .max_delay = milliseconds(5)});
  queue.admit(1, kLater, kStart);
  EXPECT_THAT(queue.take(kStart), IsEmpty());
  EXPECT_EQ(queue.next_batch_at(), kStart + milliseconds(5));
  EXPECT_THAT(queue.take(kStart + milliseconds(5)), ElementsAre(1));
  for (RequestId id = 2; id <= 4; ++id) queue.admit(id, kLater, kStart);
  EXPECT_THAT(queue.take(kStart), ElementsAre(2, 3, 4));  // a whole batch
}

TEST(RequestQueue, IsBounded) {
  RequestQueue queue({.max_queued = 2, .max_batch = 1});
  queue.admit(1, kLater, kStart);
  queue.admit(2, kLater, kStart);
  auto refused = queue.admit(3, kLater, kStart);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->why, RequestQueue::Refused::kFull);
  EXPECT_EQ(refused->retry_after, seconds(1));
  queue.take(kStart);  // requests that a replica works on do not count as waiting
  EXPECT_FALSE(queue.admit(3, kLater, kStart));
}

TEST(RequestQueue, RefusesWhatWouldBeTooLateAndSaysWhenToComeBack) {
  RequestQueue queue({.max_queued = 100, .max_batch = 1});
  queue.set_replicas(1);
  for (RequestId id = 1; id <= 10; ++id) {
    queue.admit(id, kLater, kStart);
    EXPECT_FALSE(queue.expected_wait());
    queue.answered(queue.take(kStart), seconds(2));
  }
  EXPECT_EQ(queue.expected_wait(), seconds(0));
  for (RequestId id = 11; id <= 15; ++id) EXPECT_FALSE(queue.admit(id, kLater, kStart));
  EXPECT_EQ(queue.expected_wait(), seconds(10));
  auto refused = queue.admit(16, kStart + seconds(9), kStart);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->why, RequestQueue::Refused::kTooLate);
  EXPECT_EQ(refused->retry_after, seconds(10));
  queue.set_replicas(2);
  EXPECT_FALSE(queue.admit(16, kStart + seconds(9), kStart));
  queue.set_replicas(0);  // it is unknown how long a replica takes to come back
  EXPECT_FALSE(queue.admit(17, kStart + seconds(1), kStart));
}

TEST(RequestQueue, AnExpiredRequestIsNeverGivenOut) {
  RequestQueue queue({});
  queue.admit(1, kStart + seconds(1), kStart);
  queue.admit(2, kStart + seconds(2), kStart);
  EXPECT_EQ(queue.next_deadline(), kStart + seconds(1));
  EXPECT_THAT(queue.take(kStart + seconds(1)), ElementsAre(2));
  EXPECT_THAT(queue.expire(kStart + seconds(1)), ElementsAre(1));
  EXPECT_THAT(queue.expire(kStart + seconds(1)), IsEmpty());
  EXPECT_THAT(queue.expire(kStart + seconds(2)), ElementsAre(2));  // while a replica works on it
  EXPECT_THAT(queue.lost({2}), IsEmpty());
  EXPECT_EQ(queue.waiting(), 0);
  EXPECT_FALSE(queue.next_deadline());
}

TEST(RequestQueue, WhatWasLostComesFirstAndAlone) {
  RequestQueue queue({.max_queued = 10, .max_batch = 8, .max_retries = 2});
  for (RequestId id = 1; id <= 3; ++id) queue.admit(id, kLater, kStart);
  EXPECT_THAT(queue.lost(queue.take(kStart)), IsEmpty());
  queue.admit(4, kLater, kStart);
  EXPECT_THAT(queue.take(kStart), ElementsAre(1));
  EXPECT_THAT(queue.lost({1}), IsEmpty());
  EXPECT_THAT(queue.take(kStart), ElementsAre(2));
  EXPECT_THAT(queue.take(kStart), ElementsAre(3));
  EXPECT_THAT(queue.take(kStart), ElementsAre(1));
  EXPECT_THAT(queue.lost({1}), ElementsAre(1));  // begun three times
  EXPECT_THAT(queue.take(kStart), ElementsAre(4));
}

TEST(RequestQueue, WithoutRetriesARequestIsBegunOnce) {
  RequestQueue queue({.max_retries = 0});
  queue.admit(1, kLater, kStart);
  EXPECT_THAT(queue.lost(queue.take(kStart)), ElementsAre(1));
}

TEST(RequestQueue, WhatNeverReachedAReplicaIsNotCharged) {
  RequestQueue queue({.max_batch = 8, .max_retries = 0});
  queue.admit(1, kLater, kStart);
  queue.admit(2, kLater, kStart);
  queue.returned(queue.take(kStart));
  EXPECT_EQ(queue.attempts(1), 0);
  EXPECT_THAT(queue.take(kStart), ElementsAre(1, 2));
}

TEST(RequestQueue, ARequestWhoseClientHasGoneIsDropped) {
  RequestQueue queue({});
  queue.admit(1, kLater, kStart);
  queue.admit(2, kLater, kStart);
  EXPECT_TRUE(queue.abandon(1));
  auto batch = queue.take(kStart);
  EXPECT_THAT(batch, ElementsAre(2));
  EXPECT_FALSE(queue.abandon(2));
  EXPECT_THAT(queue.lost(batch), IsEmpty());
  EXPECT_THAT(queue.take(kStart), IsEmpty());
}

// With any order of events, each admitted request ends exactly once, in one of four ways, and is
// begun at most as often as allowed.
TEST(RequestQueue, EveryRequestEndsOnceWhateverHappens) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](unsigned n) { return random() % n; };
    const int retries = static_cast<int>(below(4));
    RequestQueue queue(
        {.max_queued = 20, .max_batch = 1 + static_cast<int>(below(5)), .max_retries = retries});
    queue.set_replicas(3);
    std::vector<std::vector<RequestId>> replicas(3);
    std::map<RequestId, int> begun;
    std::map<RequestId, bool> ended;
    auto now = kStart;
    RequestId next = 1;
    auto end = [&](RequestId id) {
      EXPECT_FALSE(ended.at(id)) << id << " of seed " << seed;
      ended[id] = true;
    };
    for (int step = 0; step < 400; ++step) {
      now += milliseconds(below(50));
      auto& replica = replicas[below(3)];
      switch (below(6)) {
        case 0:
        case 1:
          if (!queue.admit(next, now + milliseconds(below(1000) + 1), now)) ended[next++] = false;
          break;
        case 2:
          if (!replica.empty()) break;
          replica = queue.take(now);
          for (RequestId id : replica) EXPECT_LE(++begun[id], retries + 1);
          break;
        case 3:
          for (RequestId id : replica) {
            if (!ended[id]) end(id);
          }
          queue.answered(replica, milliseconds(1));
          replica.clear();
          break;
        case 4:
          for (RequestId id : queue.lost(replica)) end(id);
          replica.clear();
          break;
        case 5: {
          for (RequestId id : queue.expire(now)) end(id);
          RequestId gone = 1 + below(static_cast<unsigned>(next));
          if (ended.contains(gone) && !ended[gone]) {
            queue.abandon(gone);
            end(gone);
          }
        }
      }
    }
    for (auto& replica : replicas) {
      for (RequestId id : replica) {
        if (!ended[id]) end(id);
      }
      queue.answered(replica, milliseconds(1));
    }
    for (RequestId id : queue.clear()) end(id);
    for (const auto& [id, has_ended] : ended) EXPECT_TRUE(has_ended) << id << " of seed " << seed;
    EXPECT_EQ(queue.waiting(), 0);
    EXPECT_FALSE(queue.next_deadline());
  }
}

}  // namespace
}  // namespace manta::serve
