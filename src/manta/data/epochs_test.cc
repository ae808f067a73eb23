// Dataset::repeat and DataShard::iter_epochs.

#include <gmock/gmock.h>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/data/feed_fixture_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/sources.h"

namespace manta::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(EpochsTest, RepeatIsPartOfThePlan) {
  Dataset once = range(10);
  Dataset thrice = once.repeat(3).filter(col("id") < 5).sort("id", {.descending = true});
  EXPECT_EQ(epochs_of(*once.plan()), std::nullopt);
  EXPECT_EQ(epochs_of(*thrice.plan()), 3);
  EXPECT_EQ(epochs_of(*once.repeat().plan()), kEndlessly);
  EXPECT_EQ(thrice.count(), 5);  // of one epoch
  EXPECT_EQ(once.repeat(3).count(), 10);
  EXPECT_THAT(thrice.explain(), HasSubstr("repeat(3)"));
  Dataset stored = Dataset::from_json(thrice.to_json());
  EXPECT_EQ(epochs_of(*stored.plan()), 3);
  EXPECT_THAT(message_of([&] { once.repeat(0); }), HasSubstr("of at least 1, not 0"));
  EXPECT_THAT(message_of([&] { thrice.repeat(); }), HasSubstr("repeated already"));
  EXPECT_THAT(message_of([&] { once.union_with(thrice); }),
              HasSubstr("the other side is repeated"));
  EXPECT_THAT(message_of([&] { once.join(thrice, "id"); }),
              HasSubstr("call repeat() on the result"));
  Json json = thrice.to_json();
  for (auto& operation : json.at("operations")) {
    if (operation.at("op") == "repeat") operation["times"] = 0;
  }
  EXPECT_THAT(message_of([&] { Dataset::from_json(json); }), HasSubstr("times"));
}

// A worker that is alone with its reader.
class ShardEpochsTest : public testing::Test {
 protected:
  std::shared_ptr<ShardState> shard_of(const Dataset& dataset, int64_t epochs,
                                       const Position& from = {}) {
    std::vector<UniqueFd> ends;
    auto clients = make_clients(1, ends);
    reader_ = std::thread([dataset, ends = std::move(ends)]() mutable {
      serve_feed({{"train", dataset.plan()}}, std::move(ends), {});
    });
    auto state = std::make_shared<ShardState>(clients[0], "train", from);
    state->epochs = epochs;
    return state;
  }
  void TearDown() override {
    if (reader_.joinable()) reader_.join();
  }
  std::thread reader_;
};

int64_t read_all(const ShardEpoch& epoch) {
  int64_t rows = 0;
  for (const auto& batch : epoch.iter_batches({.batch_size = 4})) rows += batch->num_rows();
  return rows;
}

TEST_F(ShardEpochsTest, AsManyAsAreLeft) {
  auto state = shard_of(range(10), 3, {1, 0, 0, 0});
  DataShard shard(state);
  std::vector<int64_t> epochs, rows;
  for (const ShardEpoch& epoch : shard.iter_epochs()) {
    epochs.push_back(epoch.number());
    rows.push_back(read_all(epoch));
  }
  EXPECT_THAT(epochs, ElementsAre(1, 2));
  EXPECT_THAT(rows, ElementsAre(10, 10));
  EXPECT_EQ(shard.epoch(), 3);
  EXPECT_FALSE(shard.iter_epochs().next());
  EXPECT_EQ(shard.iter_epochs(5).next()->number(), 3);
}

TEST_F(ShardEpochsTest, AnEpochThatIsNotReadIsOver) {
  auto state = shard_of(range(10), kEndlessly);
  DataShard shard(state);
  auto epochs = shard.iter_epochs();
  auto first = epochs.next();
  auto second = epochs.next();
  EXPECT_EQ(second->number(), 1);
  EXPECT_THAT(message_of([&] { first->iter_batches(); }), HasSubstr("epoch 0 of data set 'train'"));
  {
    auto batches = second->iter_batches({.batch_size = 4});
    EXPECT_FALSE(batches.begin() == batches.end());
    EXPECT_THAT(message_of([&] { epochs.next(); }), HasSubstr("is being iterated over"));
  }
  EXPECT_EQ(epochs.next()->number(), 2);  // left early: over
}

TEST_F(ShardEpochsTest, TheNumberOfEpochsMustBeGiven) {
  auto state = shard_of(range(10), 0);
  DataShard shard(state);
  EXPECT_THAT(message_of([&] { shard.iter_epochs(); }), HasSubstr("repeat(epochs)"));
  EXPECT_THAT(message_of([&] { shard.iter_epochs(-1); }), HasSubstr("at least 0 epochs, not -1"));
  EXPECT_EQ(read_all(*shard.iter_epochs(1).next()), 10);
}

}  // namespace
}  // namespace manta::data
