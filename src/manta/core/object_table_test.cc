#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manta/base/error_internal.h"
#include "manta/core/object_table_internal.h"

namespace manta {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Outcome value_of(const std::string& text, std::vector<ObjectId> refs = {}) {
  Outcome outcome;
  outcome.ok = true;
  outcome.value.inline_body = text;
  outcome.value.refs = std::move(refs);
  return outcome;
}

// Writes down what the table says: "1:7=text" for a value of object 7 to peer 1, "1:7" for a watch.
class ObjectTableTest : public testing::Test {
 protected:
  std::vector<std::string> take_answers() { return std::exchange(answers_, {}); }

  std::vector<std::string> answers_;
  std::vector<ObjectId> ready_;
  std::vector<ObjectId> freed_;
  ObjectTable table_{{
      .answer =
          [this](uint32_t peer, ObjectReady message) {
            std::string text = str(peer, ":", message.id);
            if (message.with_outcome && message.outcome.ok) {
              text += "=" + message.outcome.value.inline_body;
            } else if (message.with_outcome) {
              text += str(" ", kind_name(message.outcome.error.kind));
            }
            answers_.push_back(text);
          },
      .dependency_ready = [this](ObjectId task) { ready_.push_back(task); },
      .freed = [this](ObjectId id) { freed_.push_back(id); },
  }};
};

TEST_F(ObjectTableTest, WhoAsksBeforeIsAnsweredWhenItIsThere) {
  table_.create(7);
  table_.fetch(7, 1);
  table_.watch(7, 2);
  table_.fetch(7, 3);
  EXPECT_THAT(take_answers(), IsEmpty());
  EXPECT_EQ(table_.outcome(7), nullptr);
  table_.finish(7, value_of("x"));
  EXPECT_THAT(take_answers(), UnorderedElementsAre("1:7=x", "3:7=x", "2:7"));
  ASSERT_NE(table_.outcome(7), nullptr);
  EXPECT_TRUE(table_.outcome(7)->ok);
}

TEST_F(ObjectTableTest, WhoAsksAfterIsAnsweredAtOnce) {
  table_.create(7);
  table_.finish(7, value_of("x"));
  table_.fetch(7, 1);
  table_.watch(7, 1);
  EXPECT_THAT(take_answers(), ElementsAre("1:7=x", "1:7"));
}

TEST_F(ObjectTableTest, AFailureIsAnAnswerToo) {
  table_.create(7);
  table_.fetch(7, 1);
  table_.watch(7, 1);
  table_.finish(7, Outcome::failed(ErrorKind::kWorkerLost, "gone"));
  EXPECT_THAT(take_answers(), UnorderedElementsAre("1:7 worker lost", "1:7"));
}

TEST_F(ObjectTableTest, WhatIsNotKnownIsSaidSo) {
  table_.fetch(7, 1);
  table_.watch(7, 1);
  EXPECT_THAT(take_answers(), ElementsAre("1:7 not found", "1:7"));
  EXPECT_FALSE(table_.add_dependent(7, 100));
  EXPECT_EQ(table_.outcome(7), nullptr);
  table_.add_ref(7);
  table_.release(7);
  table_.finish(7, value_of("x"));
  EXPECT_FALSE(table_.contains(7));
  EXPECT_THAT(freed_, IsEmpty());
}

TEST_F(ObjectTableTest, DependentsAreToldOncePerDependency) {
  table_.create(7);
  EXPECT_TRUE(table_.add_dependent(7, 100));
  EXPECT_TRUE(table_.add_dependent(7, 101));
  EXPECT_TRUE(table_.add_dependent(7, 100));  // twice the same argument
  table_.finish(7, Outcome::failed(ErrorKind::kUserCode, "no"));
  EXPECT_THAT(ready_, UnorderedElementsAre(100, 100, 101));
  EXPECT_FALSE(table_.add_dependent(7, 102));
}

TEST_F(ObjectTableTest, TheFirstEndCounts) {
  table_.create(7);
  table_.fetch(7, 1);
  table_.add_dependent(7, 100);
  table_.finish(7, value_of("first"));
  table_.finish(7, value_of("second"));
  EXPECT_THAT(take_answers(), ElementsAre("1:7=first"));
  EXPECT_THAT(ready_, ElementsAre(100));
  EXPECT_EQ(table_.outcome(7)->value.inline_body, "first");
}

TEST_F(ObjectTableTest, TheLastHoldFrees) {
  table_.create(7);
  table_.add_ref(7);
  table_.release(7);
  EXPECT_TRUE(table_.contains(7));
  table_.release(7);
  EXPECT_FALSE(table_.contains(7));
  EXPECT_THAT(freed_, ElementsAre(7));
  table_.finish(7, value_of("too late"));
  table_.release(7);
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_THAT(freed_, ElementsAre(7));
  EXPECT_THAT(answers_, IsEmpty());
}

TEST_F(ObjectTableTest, CreatingAgainChangesNothing) {
  table_.create(7);
  table_.finish(7, value_of("x"));
  table_.create(7);
  EXPECT_NE(table_.outcome(7), nullptr);
  table_.release(7);
  EXPECT_FALSE(table_.contains(7));
}

TEST_F(ObjectTableTest, AValueHoldsWhatItRefersTo) {
  table_.create(1);
  table_.create(2);
  table_.create(3);
  table_.finish(3, value_of("list", {1, 2, 2, 99}));
  table_.release(1);
  table_.release(2);
  EXPECT_EQ(table_.size(), 3u);
  table_.release(3);
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_THAT(freed_, UnorderedElementsAre(1, 2, 3));
}

TEST_F(ObjectTableTest, ALateValueOfAFreedObjectHoldsNothing) {
  table_.create(1);
  table_.create(2);
  table_.release(2);
  table_.finish(2, value_of("late", {1}));
  table_.release(1);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(ObjectTableTest, ALongChainOfReferencesIsFreed) {
  constexpr ObjectId kLength = 100000;
  for (ObjectId id = 1; id <= kLength; ++id) {
    table_.create(id);
    table_.finish(id,
                  value_of("", id == 1 ? std::vector<ObjectId>() : std::vector<ObjectId>{id - 1}));
  }
  for (ObjectId id = 1; id < kLength; ++id) table_.release(id);
  EXPECT_EQ(table_.size(), kLength);
  table_.release(kLength);
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(freed_.size(), kLength);
}

TEST_F(ObjectTableTest, APeerThatHasGoneIsNotAnswered) {
  table_.create(7);
  table_.fetch(7, 1);
  table_.fetch(7, 2);
  table_.watch(7, 1);
  table_.forget_peer(1);
  table_.finish(7, value_of("x"));
  EXPECT_THAT(take_answers(), ElementsAre("2:7=x"));
}

TEST(ObjectTableUnobserved, OnlyFailuresThatNobodyAskedForAreReported) {
  std::vector<ObjectId> reported;
  ObjectTable table({.answer = [](uint32_t, ObjectReady) {},
                     .dependency_ready = [](ObjectId) {},
                     .freed = [](ObjectId) {},
                     .unobserved = [&](ObjectId id, const ErrorInfo&) { reported.push_back(id); }});
  auto failed = [] { return Outcome::failed(ErrorKind::kUserCode, "bad"); };
  Outcome good;
  good.ok = true;
  for (ObjectId id = 1; id <= 6; ++id) table.create(id);
  table.finish(1, failed());
  table.release(1);  // 1: failed, then dropped
  table.release(2);
  table.finish(2, failed());  // 2: dropped, then failed
  table.finish(3, failed());
  table.fetch(3, 0);
  table.release(3);
  table.add_dependent(4, 99);
  table.finish(4, failed());
  table.release(4);
  table.finish(5, Outcome::failed(ErrorKind::kCancelled, "unwanted"));
  table.release(5);
  table.finish(6, good);
  table.release(6);
  EXPECT_EQ(reported, (std::vector<ObjectId>{1, 2}));
}

}  // namespace
}  // namespace manta
