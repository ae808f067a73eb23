#include <gmock/gmock.h>

#include <random>
#include <set>

#include "manta/core/ledger_internal.h"
#include "manta/core/node_supply_internal.h"

namespace manta {
namespace {

Resources with_cpus(double count) { return {.cpus = count}; }
PossibleNodes nodes_of(double count_of_cpus, size_t count, std::string name = "",
                       Labels labels = {}) {
  return {std::move(name), count, with_cpus(count_of_cpus), std::move(labels)};
}
NodePlanState::Present planned(NodeId id, double free, bool idle_long = false) {
  return {id, Room(with_cpus(free)), {}, idle_long};
}
NodePlanState::Waiting waits(double each, size_t count = 1,
                             Placement placement = Placement::kPack) {
  return {std::vector<Request>(count, Request{with_cpus(each), {}}), placement};
}

struct PlanCase {
  std::string what;
  NodePlanState state;
  NodePlan plan;
};

TEST(NodePlanTest, Decides) {
  SupplyState four{.coming = {}, .possible = {nodes_of(2, 4)}};
  SupplyState one_coming{.coming = {nodes_of(2, 1)}, .possible = {nodes_of(2, 3)}};
  SupplyState at_least_two{.coming = {}, .possible = {nodes_of(2, 4)}, .least = 2};
  SupplyState replaced{.coming = {nodes_of(2, 1)}, .possible = {}, .least = 1};
  SupplyState hosts{
      .coming = {}, .possible = {nodes_of(2, 1, "n1"), nodes_of(8, 1, "n2")}, .least = 0};
  const auto kStrict = Placement::kStrictSpread;
  const std::vector<PlanCase> cases = {
      {"nothing waits", {{planned(0, 2)}, {}, four}, {}},
      {"what has room", {{planned(0, 2)}, {waits(1)}, four}, {}},
      {"what has none", {{planned(0, 0)}, {waits(1)}, four}, {{{"", 1}}, {}}},
      {"two share one", {{planned(0, 0)}, {waits(1), waits(1)}, four}, {{{"", 1}}, {}}},
      {"three need two", {{planned(0, 0)}, {waits(1, 3)}, four}, {{{"", 2}}, {}}},
      {"no more than there could be", {{}, {waits(2, 4), waits(2)}, four}, {{{"", 4}}, {}}},
      {"a gang that could never be", {{}, {waits(2, 5)}, four}, {}},
      {"more than a node has", {{planned(0, 0)}, {waits(3)}, four}, {}},
      {"one that is coming will do", {{planned(0, 0)}, {waits(2)}, one_coming}, {}},
      {"one is coming, two wait", {{}, {waits(2), waits(2)}, one_coming}, {{{"", 1}}, {}}},
      {"each on another node", {{planned(0, 2)}, {waits(1, 3, kStrict)}, four}, {{{"", 2}}, {}}},
      {"what is lost is replaced",
       {{planned(0, 2), planned(1, 2)}, {}, at_least_two},
       {{{"", 1}}, {}}},
      {"replaced and needed are one",
       {{planned(0, 0), planned(1, 0)}, {waits(1)}, at_least_two},
       {{{"", 1}}, {}}},
      {"only the larger helps", {{planned(0, 0)}, {waits(4)}, hosts}, {{{"n2", 1}}, {}}},
      {"idle ones go", {{planned(0, 2), planned(1, 2, true), planned(2, 2)}, {}, four}, {{}, {1}}},
      {"the driver's never", {{planned(0, 2, true)}, {}, four}, {}},
      {"not below the least",
       {{planned(0, 2), planned(1, 2, true), planned(2, 2, true), planned(3, 2, true)},
        {},
        at_least_two},
       {{}, {1}}},
      {"one that is coming and that nothing needs",
       {{planned(0, 2)}, {}, one_coming},
       {{}, {}, {{"", 1}}}},
      {"one that is coming instead of a lost one", {{planned(0, 2)}, {}, replaced}, {}},
      {"rather what is coming than what is there",
       {{planned(0, 2), planned(1, 2, true)}, {}, replaced},
       {{}, {}, {{"", 1}}}},
      {"not while something waits for it",
       {{planned(0, 0), planned(1, 2, true)}, {waits(2)}, four},
       {}},
  };
  for (const auto& each : cases) EXPECT_EQ(plan_nodes(each.state), each.plan) << each.what;
}

TEST(NodePlanTest, OneNodeKeepsEachValue) {
  struct Case {
    std::string what;
    std::vector<std::vector<NodeId>> holders;
    std::set<NodeId> used, kept;
  };
  const std::vector<Case> cases = {
      {"no value", {}, {4}, {4}},
      {"nowhere else", {{2}}, {}, {2}},
      {"on two nodes", {{1, 2}}, {}, {1}},
      {"on one that is used anyway", {{1, 2}}, {2}, {2}},
      {"one node keeps all that it can", {{1, 2}, {2}, {2, 3}}, {}, {2}},
      {"each its own", {{1}, {2, 3}}, {}, {1, 2}},
      {"lost already", {{}}, {}, {}},
  };
  for (const auto& each : cases) {
    std::set<NodeId> used = each.used;
    keep_values(each.holders, used);
    EXPECT_EQ(used, each.kept) << each.what;
  }
}

TEST(NodePlanTest, LabelsChooseTheNode) {
  SupplyState hosts{
      .coming = {},
      .possible = {nodes_of(2, 1, "n1", {{"node", "n1"}}), nodes_of(2, 1, "n2", {{"node", "n2"}})}};
  NodePlanState state{
      {planned(0, 2)}, {{{Request{with_cpus(1), {{"node", "n2"}}}}, Placement::kPack}}, hosts};
  EXPECT_EQ(plan_nodes(state), (NodePlan{{{"n2", 1}}, {}}));
}

TEST(NodePlanTest, WhatCouldComeIsKnown) {
  SupplyState supply{.coming = {nodes_of(4, 1)}, .possible = {nodes_of(2, 2)}};
  auto could = [&](double each, size_t count, Placement placement = Placement::kPack) {
    return could_come(supply, {}, std::vector<Request>(count, Request{with_cpus(each), {}}),
                      placement);
  };
  EXPECT_TRUE(could(4, 1));
  EXPECT_FALSE(could(5, 1));
  EXPECT_TRUE(could(2, 4));
  EXPECT_FALSE(could(2, 5));
  EXPECT_TRUE(could(1, 3, Placement::kStrictSpread));
  EXPECT_FALSE(could(1, 4, Placement::kStrictSpread));
  supply.replacements = {nodes_of(2, 1)};
  EXPECT_TRUE(could(1, 4, Placement::kStrictSpread));
  EXPECT_FALSE(could(1, 5, Placement::kStrictSpread));
}

// A ledger and a source without processes: work of random shapes comes and goes, and nodes that
// were asked for come and sometimes are lost. All work that could ever run does run, and in the end
// all nodes beyond `least` are given back.
TEST(NodePlanTest, AllWorkRunsAndAllNodesGoInTheEnd) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    auto draw = [&](int below) {
      return static_cast<int>(random() % static_cast<unsigned>(below));
    };
    Ledger ledger;
    std::vector<NodeId> present{0};
    NodeId next = 1;
    size_t coming = 0, done = 0, submitted = 0;
    const size_t most = 1 + static_cast<size_t>(draw(6)), least = static_cast<size_t>(draw(2));
    ledger.add_node({0, "driver", with_cpus(2), {}});
    std::vector<NodePlanState::Waiting> queue;
    struct Work {
      std::vector<Grant> grants;
      NodePlanState::Waiting asked;
      int left = 0;
    };
    std::vector<Work> running;
    for (int step = 0; step < 400; ++step) {
      if (step < 200 && draw(3) == 0) {
        size_t gang = 1 + static_cast<size_t>(draw(static_cast<int>(most)));
        queue.push_back(waits(1 + draw(4), gang, Placement::kPack));
        ++submitted;
      }
      while (coming > 0 && draw(2) == 0) {
        --coming;
        present.push_back(next);
        ledger.add_node({next++, "n", with_cpus(4), {}});
      }
      if (step < 200 && present.size() > 1 && draw(20) == 0) {  // lost with all its work
        NodeId lost = present.back();
        present.pop_back();
        ledger.remove_node(lost);
        std::erase_if(running, [&](Work& work) {
          bool hit = std::any_of(work.grants.begin(), work.grants.end(),
                                 [&](const Grant& grant) { return grant.node == lost; });
          if (!hit) return false;
          for (const Grant& grant : work.grants) ledger.release(grant);
          queue.push_back(work.asked);
          return true;
        });
      }
      std::erase_if(running, [&](Work& work) {
        if (--work.left > 0) return false;
        for (const Grant& grant : work.grants) ledger.release(grant);
        ++done;
        return true;
      });
      std::erase_if(queue, [&](const auto& each) {
        auto grants = ledger.acquire_gang(each.asked, each.placement, 1);
        if (grants) running.push_back({*grants, each, 1 + draw(5)});
        return grants.has_value();
      });
      NodePlanState state;
      for (NodeId id : present) {
        Resources total = with_cpus(id == 0 ? 2 : 4);
        state.nodes.push_back(
            {id, Room(ledger.available(id)), {}, ledger.available(id).cpus == total.cpus});
      }
      state.waiting = queue;
      state.supply.coming = {nodes_of(4, coming)};
      state.supply.possible = {nodes_of(4, most - coming - (present.size() - 1))};
      state.supply.least = least;
      NodePlan plan = plan_nodes(state);
      coming += plan.bring[""];
      ASSERT_LE(plan.spare[""], coming) << seed;
      coming -= plan.spare[""];
      ASSERT_LE(coming + present.size() - 1, most) << seed;
      for (NodeId id : plan.release) {
        ASSERT_NE(id, 0u);
        std::erase(present, id);
        ledger.remove_node(id);
      }
    }
    EXPECT_EQ(done, submitted) << seed;
    EXPECT_TRUE(queue.empty()) << seed;
    EXPECT_EQ(present.size() - 1 + coming, least) << seed;
  }
}

}  // namespace
}  // namespace manta
