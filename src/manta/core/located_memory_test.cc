#include <gmock/gmock.h>

#include "manta/core/located_memory_internal.h"

namespace manta {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::shared_ptr<SharedMemory> memory_of(const std::string& text) {
  SharedMemoryWriter writer;
  writer.write(text.data(), text.size());
  return std::move(writer).finish();
}

// Transfers that end when the test says so.
struct PaperTransfers final : MemoryTransfers {
  uint64_t keep(std::shared_ptr<SharedMemory> memory) override {
    kept = std::move(memory);
    return 7;
  }
  std::shared_ptr<SharedMemory> find(uint64_t) override { return kept; }
  void fetch(const MemoryKey& key, NodeId from, NodeId to,
             std::function<void(const std::string&)> done) override {
    EXPECT_EQ(key.number, 7u);
    begun.emplace_back(from, to);
    ends.push_back(std::move(done));
  }
  void drop(uint64_t number, const std::set<NodeId>& nodes) override {
    EXPECT_EQ(number, 7u);
    dropped.insert(nodes.begin(), nodes.end());
  }

  std::shared_ptr<SharedMemory> kept;
  std::vector<std::pair<NodeId, NodeId>> begun;
  std::vector<std::function<void(const std::string&)>> ends;
  std::set<NodeId> dropped;
};

class LocatedMemoryTest : public testing::Test {
 protected:
  std::shared_ptr<LocatedMemory> of_node(NodeId node) {
    auto memory = std::make_shared<LocatedMemory>(MemoryKey{7, 100, node, 0});
    memory->set_transfers(&transfers_);
    return memory;
  }
  LocatedMemory::Done note() {
    return [this](const std::string& why) { said_.push_back(why); };
  }

  PaperTransfers transfers_;
  std::vector<std::string> said_;
};

TEST_F(LocatedMemoryTest, ANodeFetchesItOnce) {
  auto memory = of_node(1);
  memory->fetch_to(2, note());
  memory->fetch_to(2, note());
  memory->fetch_to(3, note());
  EXPECT_THAT(transfers_.begun, ElementsAre(std::pair(1, 2), std::pair(1, 3)));
  EXPECT_FALSE(memory->is_on(2));
  transfers_.ends[0]("");
  EXPECT_THAT(said_, ElementsAre("", ""));
  EXPECT_TRUE(memory->is_on(2));
  EXPECT_FALSE(memory->is_on(3));
}

TEST_F(LocatedMemoryTest, WhatIsHereGetsANumberWhenAnotherNodeNeedsIt) {
  auto memory = std::make_shared<LocatedMemory>(memory_of("abc"));
  memory->set_transfers(&transfers_);
  EXPECT_TRUE(memory->is_on(0));
  EXPECT_FALSE(transfers_.kept);
  memory->fetch_to(1, note());
  EXPECT_TRUE(transfers_.kept);
  EXPECT_THAT(transfers_.begun, ElementsAre(std::pair(0, 1)));
}

TEST_F(LocatedMemoryTest, ItIsFreedOnAllNodesWithItsLastHolder) {
  auto memory = of_node(1);
  memory->fetch_to(2, note());
  transfers_.ends[0]("");
  EXPECT_THAT(transfers_.dropped, IsEmpty());
  memory.reset();
  EXPECT_THAT(transfers_.dropped, ElementsAre(1, 2));
}

TEST_F(LocatedMemoryTest, WhatArrivesAfterItsLastHolderHasGoneIsFreed) {
  auto memory = of_node(1);
  memory->fetch_to(2, note());
  memory->fetch_to(3, note());
  memory.reset();
  EXPECT_THAT(transfers_.dropped, ElementsAre(1));
  transfers_.ends[0]("");
  EXPECT_THAT(transfers_.dropped, ElementsAre(1, 2));
  transfers_.ends[1]("closed");
  EXPECT_THAT(transfers_.dropped, ElementsAre(1, 2));  // it never came
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(LocatedMemoryTest, AnotherCopyIsTriedAndThenItFails) {
  auto memory = of_node(1);
  memory->fetch_to(2, note());
  transfers_.ends[0]("");
  said_.clear();
  memory->fetch_to(3, note());
  transfers_.ends[1]("cannot be reached");
  EXPECT_THAT(transfers_.begun.back(), std::pair(2, 3));
  EXPECT_THAT(said_, IsEmpty());
  transfers_.ends[2]("is full");
  EXPECT_THAT(said_, ElementsAre("is full"));
  EXPECT_TRUE(memory->is_on(1) && memory->is_on(2));  // they keep it for other nodes
}

TEST_F(LocatedMemoryTest, ItIsLostWithTheLastNodeThatHasIt) {
  auto memory = of_node(1);
  memory->fetch_to(2, note());
  transfers_.ends[0]("");
  memory->forget_node(1, "n1 is gone");
  EXPECT_EQ(memory->lost(), "");
  memory->fetch_to(3, note());
  EXPECT_THAT(transfers_.begun.back(), std::pair(2, 3));
  memory->forget_node(2, "n2 is gone");
  EXPECT_EQ(memory->lost(), "n2 is gone");
  transfers_.ends[1]("closed");
  EXPECT_THAT(said_.back(), "n2 is gone");
}

TEST_F(LocatedMemoryTest, ANodeThatLeavesWaitsForNothing) {
  auto memory = of_node(1);
  memory->fetch_to(2, note());
  memory->forget_node(2, "n2 is gone");
  transfers_.ends[0]("");
  EXPECT_THAT(said_, IsEmpty());
  EXPECT_FALSE(memory->is_on(2));
}

}  // namespace
}  // namespace manta
