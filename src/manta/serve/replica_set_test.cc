#include <gmock/gmock.h>

#include <random>
#include <set>

#include "manta/serve/replica_set_internal.h"

namespace manta::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

const Clock::time_point kNow = Clock::time_point() + seconds(1000);

std::vector<ReplicaAction> decide(ReplicaSet& set, bool room = true) {
  return set.decide(kNow, room);
}

TEST(ReplicaSet, TheFirstDeployStartsAllAtOnceAndEndsWhenAllServe) {
  ReplicaSet set;
  set.update(1, 2);
  EXPECT_THAT(decide(set), ElementsAre(StartReplica{1, 1}, StartReplica{2, 1}));
  set.on_ready(2);
  EXPECT_THAT(decide(set), IsEmpty());
  set.on_ready(1);
  EXPECT_THAT(decide(set), ElementsAre(UpdateEnded{1, true}));
  EXPECT_EQ(set.serving(), 2);
}

TEST(ReplicaSet, AnUpdateGoesReplicaByReplicaAndANewOneServesFirst) {
  ReplicaSet set;
  set.update(1, 2);
  decide(set);
  set.on_ready(1);
  set.on_ready(2);
  decide(set);
  set.update(2, 2);
  EXPECT_THAT(decide(set), ElementsAre(StartReplica{3, 2}));
  EXPECT_THAT(decide(set), IsEmpty());
  set.on_ready(3);
  EXPECT_THAT(decide(set), ElementsAre(DrainReplica{1}, StartReplica{4, 2}));
  set.on_lost(1, "drained", kNow);
  EXPECT_THAT(decide(set), IsEmpty());
  set.on_ready(4);
  EXPECT_THAT(decide(set), ElementsAre(DrainReplica{2}, UpdateEnded{2, true}));
  set.on_lost(2, "drained", kNow);
  EXPECT_THAT(decide(set), IsEmpty());
  EXPECT_EQ(set.restarts(), 0);
}

TEST(ReplicaSet, WithoutRoomAnOldOneGoesFirstUnlessItIsTheLast) {
  for (int count : {1, 2}) {
    ReplicaSet set;
    set.update(1, count);
    decide(set);
    for (int i = 1; i <= count; ++i) set.on_ready(static_cast<ReplicaId>(i));
    decide(set);
    set.update(2, count);
    auto actions = decide(set, /*room=*/false);
    if (count == 1) {
      EXPECT_THAT(actions, ElementsAre(StartReplica{2, 2}));  // and it waits
    } else {
      EXPECT_THAT(actions, ElementsAre(DrainReplica{1}, StartReplica{3, 2}));
    }
  }
}

TEST(ReplicaSet, AFailedUpdateGoesBackToWhatServed) {
  ReplicaSet set;
  set.update(1, 2);
  decide(set);
  set.on_ready(1);
  set.on_ready(2);
  decide(set);
  set.update(2, 2);
  decide(set);
  set.on_ready(3);
  decide(set);  // drains 1, starts 4
  set.on_lost(1, "drained", kNow);
  set.on_load_failed(4, "no such model");
  EXPECT_THAT(decide(set), ElementsAre(StartReplica{5, 1}, UpdateEnded{2, false, "no such model"}));
  set.on_lost(4, "ended", kNow);
  EXPECT_EQ(set.serving(), 2);  // 2 of the first generation, 3 of the failed one
  set.on_ready(5);
  EXPECT_THAT(decide(set), ElementsAre(DrainReplica{3}));
  EXPECT_FALSE(set.updating());
}

TEST(ReplicaSet, AFailedFirstDeployLeavesNothing) {
  ReplicaSet set;
  set.update(1, 2);
  decide(set);
  set.on_ready(2);
  set.on_load_failed(1, "no");
  EXPECT_THAT(decide(set), ElementsAre(DrainReplica{2}, UpdateEnded{1, false, "no"}));
  set.on_lost(1, "ended", kNow);
  set.on_lost(2, "ended", kNow);
  EXPECT_THAT(decide(set), IsEmpty());
  EXPECT_EQ(set.size(), 0);
}

TEST(ReplicaSet, ALostReplicaIsReplacedAtOnceAsLongAsTheyWork) {
  ReplicaSet set;
  set.update(1, 1);
  decide(set);
  set.on_ready(1);
  decide(set);
  for (ReplicaId id = 1; id < 100; ++id) {
    set.on_answered(id);
    set.on_lost(id, "killed", kNow);
    EXPECT_EQ(set.trouble(), "killed");
    ASSERT_THAT(decide(set), ElementsAre(StartReplica{id + 1, 1}));
    set.on_ready(id + 1);
    EXPECT_EQ(set.trouble(), "");
    ASSERT_THAT(decide(set), IsEmpty());
  }
  EXPECT_EQ(set.restarts(), 99);
}

TEST(ReplicaSet, ThoseThatNeverAnswerAreReplacedMoreAndMoreSlowly) {
  ReplicaSet set;
  set.update(1, 1);
  decide(set);
  set.on_ready(1);
  decide(set);
  auto now = kNow;
  milliseconds last{0};
  for (ReplicaId id = 1; id < 20; ++id) {
    set.on_lost(id, "crashed", now);
    auto actions = set.decide(now, true);
    if (id <= 2) {
      EXPECT_THAT(actions, ElementsAre(StartReplica{id + 1, 1}));
      continue;
    }
    EXPECT_THAT(actions, IsEmpty());
    ASSERT_TRUE(set.next_decision_at());
    auto pause = std::chrono::duration_cast<milliseconds>(*set.next_decision_at() - now);
    EXPECT_GE(pause, last);
    EXPECT_LE(pause, seconds(5));
    last = pause;
    now = *set.next_decision_at();
    EXPECT_THAT(set.decide(now, true), ElementsAre(StartReplica{id + 1, 1}));
  }
  EXPECT_EQ(last, seconds(5));
}

TEST(ReplicaSet, AnUpdateWhoseProcessesDieFails) {
  ReplicaSet set;
  set.update(1, 1);
  for (ReplicaId id = 1; id <= 2; ++id) {
    EXPECT_THAT(decide(set), ElementsAre(StartReplica{id, 1}));
    set.on_lost(id, "crashed", kNow);
  }
  decide(set);
  set.on_lost(3, "crashed", kNow);
  EXPECT_THAT(decide(set), ElementsAre(UpdateEnded{1, false, "crashed"}));
}

TEST(ReplicaSet, DrainEndsAll) {
  ReplicaSet set;
  set.update(1, 2);
  decide(set);
  set.on_ready(1);
  set.drain();
  EXPECT_THAT(decide(set),
              ElementsAre(DrainReplica{2}, DrainReplica{1},
                          UpdateEnded{1, false, "the deployment was removed before it was ready"}));
  set.on_lost(1, "", kNow);
  set.on_lost(2, "", kNow);
  EXPECT_THAT(decide(set), IsEmpty());
}

// With any order of events: while something serves, there is never more than one replica too many;
// each update ends once; and when failures stop, the wanted replicas serve.
TEST(ReplicaSet, ReachesWhatIsWantedWhateverHappened) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](unsigned n) { return random() % n; };
    ReplicaSet set;
    auto now = kNow;
    std::map<ReplicaId, int> starting, serving, draining;  // with their generations
    std::set<int> open;
    int generation = 0;
    auto act = [&](bool room) {
      for (const auto& action : set.decide(now, room)) {
        if (auto* start = std::get_if<StartReplica>(&action))
          starting[start->id] = start->generation;
        if (auto* drain = std::get_if<DrainReplica>(&action)) {
          draining[drain->id] = 0;
          ASSERT_EQ(starting.erase(drain->id) + serving.erase(drain->id), 1u);
        }
        if (auto* ended = std::get_if<UpdateEnded>(&action)) {
          ASSERT_EQ(open.erase(ended->generation), 1u);
        }
      }
    };
    auto pick = [&](std::map<ReplicaId, int>& from) {
      auto chosen = from.begin();
      std::advance(chosen, below(static_cast<unsigned>(from.size())));
      ReplicaId id = chosen->first;
      from.erase(chosen);
      return id;
    };
    for (int step = 0; step < 200; ++step) {
      now += milliseconds(below(100));
      switch (below(8)) {
        case 0:
          open.insert(++generation);
          set.update(generation, 1 + static_cast<int>(below(3)));
          break;
        case 1:
        case 2:
        case 3:
          if (starting.empty()) break;
          {
            auto entry = *starting.begin();
            starting.erase(starting.begin());
            serving.insert(entry);
            set.on_ready(entry.first);
          }
          break;
        case 4:
          if (serving.empty()) break;
          set.on_lost(pick(serving), "killed", now);
          break;
        case 5:
          if (starting.empty()) break;
          {
            ReplicaId id = pick(starting);
            if (below(2)) set.on_load_failed(id, "bad model");
            set.on_lost(id, "ended", now);
          }
          break;
        case 6:
          if (!draining.empty()) set.on_lost(pick(draining), "drained", now);
          break;
        case 7:
          if (!serving.empty()) set.on_answered(serving.begin()->first);
      }
      act(below(2));
      EXPECT_EQ(set.serving(), static_cast<int>(serving.size()));
    }
    for (int step = 0; step < 200; ++step) {
      now += seconds(10);
      act(true);
      while (!draining.empty()) set.on_lost(pick(draining), "drained", now);
      if (!starting.empty()) {
        auto entry = *starting.begin();
        starting.erase(starting.begin());
        serving.insert(entry);
        set.on_ready(entry.first);
      }
    }
    EXPECT_TRUE(open.empty()) << "seed " << seed;
    EXPECT_EQ(set.serving(), set.target()) << "seed " << seed;
    EXPECT_EQ(static_cast<int>(serving.size()), set.target()) << "seed " << seed;
    std::set<int> generations;
    for (const auto& [id, of] : serving) generations.insert(of);
    EXPECT_LE(generations.size(), 1u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace manta::serve
