#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/core/ledger_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::string holder_name(uint64_t holder) { return str("task ", holder); }

Request cpus(double amount, Labels labels = {}) { return {{.cpus = amount}, std::move(labels)}; }

// Nodes n1, n2, ... with ids from 1.
Ledger ledger_of(const std::vector<Resources>& totals) {
  Ledger ledger;
  NodeId id = 0;
  for (const Resources& total : totals) {
    ++id;
    ledger.add_node({id, str("n", id), total, {}});
  }
  return ledger;
}

std::vector<NodeId> nodes_of(const std::optional<std::vector<Grant>>& grants) {
  std::vector<NodeId> nodes;
  if (grants) {
    for (const Grant& grant : *grants) nodes.push_back(grant.node);
  }
  return nodes;
}

TEST(LedgerTest, OneProcessNeverGetsMoreThanOneNodeHas) {
  Ledger ledger = ledger_of({{.cpus = 4}, {.cpus = 4}});
  EXPECT_EQ(ledger.total().cpus, 8);
  EXPECT_FALSE(ledger.acquire(cpus(6), Placement::kPack, 1));
  EXPECT_FALSE(ledger.is_possible(cpus(6)));
  EXPECT_EQ(ledger.why_impossible(cpus(6)),
            "asks for 6 CPU on one node; the largest node has 4 (n1, n2)");
  EXPECT_TRUE(ledger.acquire(cpus(3), Placement::kPack, 1));
  EXPECT_TRUE(ledger.acquire(cpus(3), Placement::kPack, 1));
  EXPECT_EQ(ledger.available().cpus, 2);
  EXPECT_FALSE(ledger.acquire(cpus(2), Placement::kPack, 1));
  EXPECT_TRUE(ledger.is_possible(cpus(2)));
}

TEST(LedgerTest, PackFillsANodeBeforeTheNextAndSpreadTakesTheFreest) {
  Ledger ledger = ledger_of({{.cpus = 4}, {.cpus = 2}, {.cpus = 4}});
  std::vector<NodeId> packed;
  for (int i = 0; i < 4; ++i) {
    packed.push_back(ledger.acquire(cpus(1), Placement::kPack, 1)->node);
  }
  EXPECT_THAT(packed, ElementsAre(2, 2, 1, 1));
  EXPECT_EQ(ledger.acquire(cpus(1), Placement::kSpread, 1)->node, 3u);
}

TEST(LedgerTest, LabelsChooseTheNode) {
  Ledger ledger;
  ledger.add_node({1, "n1", {.cpus = 1}, {{"zone", "a"}}});
  ledger.add_node({2, "n2", {.cpus = 2}, {{"zone", "b"}, {"disk", "ssd"}}});
  EXPECT_EQ(ledger.acquire(cpus(1, {{"zone", "b"}}), Placement::kPack, 1)->node, 2u);
  EXPECT_EQ(ledger.acquire(cpus(1, {{"disk", "ssd"}, {"zone", "b"}}), Placement::kPack, 1)->node,
            2u);
  EXPECT_FALSE(ledger.acquire(cpus(1, {{"zone", "b"}}), Placement::kPack, 1));
  EXPECT_EQ(ledger.why_impossible(cpus(1, {{"zone", "c"}})),
            "asks for 1 CPU on one node with zone=c; no node has these labels: n1 (zone=a), n2 "
            "(zone=b, disk=ssd)");
  EXPECT_EQ(ledger.why_impossible(cpus(2, {{"zone", "a"}})),
            "asks for 2 CPU on one node with zone=a; the largest node has 1 (n1)");
}

TEST(LedgerTest, ARequestThatNoNodeHasAllOfIsRefused) {
  Ledger ledger = ledger_of({{.cpus = 8}, {.cpus = 2, .gpus = 2}});
  EXPECT_EQ(ledger.why_impossible(Request{{.cpus = 4, .gpus = 1}}),
            "asks for 4 CPU, 1 GPU on one node; no node has all of it: n1 has 8 CPU, n2 has 2 "
            "CPU, 2 GPU");
  EXPECT_EQ(ledger.why_impossible(Request{{.cpus = 1, .custom = {{"tape", 1}}}}),
            "asks for 1 tape on one node; the largest node has 0 (n1, n2)");
}

TEST(LedgerTest, GangsArePlacedAsTheyAsk) {
  std::vector<Request> three(3, cpus(1));
  Ledger ledger = ledger_of({{.cpus = 4}, {.cpus = 4}, {.cpus = 3}});
  EXPECT_THAT(nodes_of(ledger.acquire_gang(three, Placement::kPack, 1)), ElementsAre(3, 3, 3));
  ledger = ledger_of({{.cpus = 4}, {.cpus = 4}, {.cpus = 3}});
  EXPECT_THAT(nodes_of(ledger.acquire_gang(three, Placement::kSpread, 1)),
              UnorderedElementsAre(1, 2, 3));
  EXPECT_THAT(nodes_of(ledger.acquire_gang(std::vector(3, cpus(3)), Placement::kStrictSpread, 1)),
              ElementsAre());  // n3 has 2 left
  EXPECT_THAT(nodes_of(ledger.acquire_gang(three, Placement::kStrictPack, 1)),
              ElementsAre(1, 1, 1));
  ledger = ledger_of({{.cpus = 2}, {.cpus = 4}, {.cpus = 2}});
  EXPECT_THAT(nodes_of(ledger.acquire_gang(std::vector(5, cpus(1)), Placement::kPack, 1)),
              UnorderedElementsAre(2, 2, 2, 2, 1));  // the fewest nodes
}

TEST(LedgerTest, AnImpossibleGangIsRefusedWithTheReason) {
  Ledger ledger = ledger_of({{.cpus = 4}, {.cpus = 4}});
  EXPECT_EQ(ledger.why_impossible(std::vector(3, cpus(1)), Placement::kStrictSpread),
            "asks for 3 times 1 CPU, each on another node (STRICT_SPREAD); there are 2 nodes: n1 "
            "has 4 CPU, n2 has 4 CPU");
  EXPECT_EQ(ledger.why_impossible(std::vector(3, cpus(2)), Placement::kStrictPack),
            "asks for 3 times 2 CPU on one node (STRICT_PACK); there are 2 nodes: n1 has 4 CPU, "
            "n2 has 4 CPU");
  EXPECT_EQ(ledger.why_impossible(std::vector(3, cpus(3)), Placement::kPack),
            "asks for 3 times 3 CPU (PACK); there are 2 nodes: n1 has 4 CPU, n2 has 4 CPU");
  EXPECT_EQ(ledger.why_impossible(std::vector(2, cpus(6)), Placement::kPack),
            "asks for 6 CPU on one node; the largest node has 4 (n1, n2)");
  EXPECT_EQ(ledger.why_impossible(std::vector(2, cpus(4)), Placement::kPack), "");
}

TEST(LedgerTest, StrictSpreadMovesOthersToMakeAPlace) {
  Ledger ledger = ledger_of({{.cpus = 4, .gpus = 1}, {.cpus = 2, .gpus = 1}, {.cpus = 4}});
  std::vector<Request> asked{{{.cpus = 3}}, {{.cpus = 1, .gpus = 1}}, {{.cpus = 2, .gpus = 1}}};
  auto nodes = nodes_of(ledger.acquire_gang(asked, Placement::kStrictSpread, 1));
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0], 3u);
}

TEST(LedgerTest, WhyWaitsNamesTheFreestNodeAndItsHolders) {
  Ledger ledger = ledger_of({{.cpus = 4}, {.cpus = 4}, {.cpus = 1}});
  ASSERT_EQ(ledger.acquire(cpus(3), Placement::kPack, 7)->node, 1u);
  ASSERT_EQ(ledger.acquire(cpus(4), Placement::kPack, 8)->node, 2u);
  EXPECT_EQ(ledger.why_waits(cpus(2), holder_name),
            "waits for 2 CPU (1 of 4 free) on n1, the freest of 2 nodes that could run it; held "
            "by task 7 (3 CPU)");
  EXPECT_EQ(ledger.why_waits(cpus(1), holder_name), "");
  EXPECT_THAT(ledger.why_waits(std::vector(2, cpus(2)), Placement::kPack, holder_name),
              HasSubstr("waits for 2 CPU (1 of 4 free) on n1"));
  EXPECT_EQ(ledger.why_waits(std::vector(3, cpus(1)), Placement::kPack, holder_name),
            "waits for 3 times 1 CPU, placed by PACK on 3 nodes at once (2 CPU free in all)");
}

TEST(LedgerTest, ANodeThatDrainsGetsNothingNewAndOneThatLeftHasNothing) {
  Ledger ledger = ledger_of({{.cpus = 2}, {.cpus = 4}});
  auto on_first = ledger.acquire(cpus(1), Placement::kPack, 1);
  auto on_second = ledger.acquire(cpus(3), Placement::kPack, 1);
  ASSERT_EQ(on_first->node, 1u);
  ASSERT_EQ(on_second->node, 2u);
  ledger.drain_node(2);
  EXPECT_FALSE(ledger.is_possible(cpus(3)));
  EXPECT_EQ(ledger.available().cpus, 1);
  EXPECT_EQ(ledger.acquire(cpus(1), Placement::kSpread, 1)->node, 1u);
  ledger.remove_node(2);
  ledger.release(*on_second);
  ledger.pause_cpus(*on_second);
  EXPECT_EQ(ledger.total().cpus, 2);
  EXPECT_EQ(ledger.available().cpus, 0);
  ledger.release(*on_first);
  EXPECT_EQ(ledger.available().cpus, 1);
  ledger.remove_node(1);
  EXPECT_FALSE(ledger.acquire(cpus(0), Placement::kPack, 1));
  EXPECT_EQ(ledger.why_impossible(cpus(1)), "asks for 1 CPU on one node; there is no node");
}

// Tries all ways to put each request on a different node. True if there is one.
bool can_match(const std::vector<Resources>& free, const std::vector<Request>& asked) {
  std::vector<size_t> order(free.size());
  std::iota(order.begin(), order.end(), 0);
  if (asked.size() > free.size()) return false;
  do {
    bool all = true;
    for (size_t i = 0; i < asked.size() && all; ++i) {
      all = Room(free[order[i]]).has(asked[i].resources);
    }
    if (all) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

// Grants equal the requests, on nodes that have the resources, and every node's balance is right;
// strict placements are found whenever they exist.
TEST(LedgerTest, RandomRequestsKeepTheRules) {
  std::mt19937 random(7);
  auto up_to = [&](int max) { return std::uniform_int_distribution<int>(0, max)(random); };
  for (int round = 0; round < 300; ++round) {
    std::vector<Resources> totals;
    for (int i = up_to(4); i >= 0; --i) {
      totals.push_back({.cpus = 1.0 + up_to(7), .gpus = static_cast<double>(up_to(2))});
    }
    Ledger ledger = ledger_of(totals);
    std::vector<Resources> free = totals;
    std::vector<Grant> held;
    auto take = [&](const Grant& grant) {
      Resources& left = free[grant.node - 1];
      left.cpus -= grant.amounts.cpus;
      left.gpus -= grant.amounts.gpus;
      ASSERT_GE(left.cpus, 0);
      ASSERT_GE(left.gpus, 0);
      held.push_back(grant);
    };
    for (int step = 0; step < 30; ++step) {
      auto placement = static_cast<Placement>(up_to(3));
      auto request = [&] {
        return Request{{.cpus = static_cast<double>(up_to(3)),
                        .gpus = static_cast<double>(up_to(4) == 0 ? 1 : 0)}};
      };
      if (up_to(2) == 0 && !held.empty()) {
        size_t which = static_cast<size_t>(up_to(static_cast<int>(held.size()) - 1));
        ledger.release(held[which]);
        free[held[which].node - 1].cpus += held[which].amounts.cpus;
        free[held[which].node - 1].gpus += held[which].amounts.gpus;
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      } else if (up_to(1) == 0) {
        Request asked = request();
        bool fits = std::any_of(free.begin(), free.end(),
                                [&](const auto& each) { return Room(each).has(asked.resources); });
        EXPECT_EQ(ledger.why_waits(asked, holder_name).empty(), fits);
        auto grant = ledger.acquire(asked, placement, 1);
        ASSERT_EQ(grant.has_value(), fits);
        if (grant) take(*grant);
      } else {
        std::vector<Request> asked;
        bool equal = up_to(1) == 0;
        for (int i = up_to(4); i >= 0; --i) {
          asked.push_back(equal && !asked.empty() ? asked.front() : request());
        }
        auto grants = ledger.acquire_gang(asked, placement, 1);
        if (placement == Placement::kStrictSpread) {
          ASSERT_EQ(grants.has_value(), can_match(free, asked));
        }
        size_t room = 0;  // for requests that are equal
        for (Resources each : free) {
          Room left(each);
          while (room < asked.size() && left.take(asked.front().resources)) ++room;
        }
        if (equal && (placement == Placement::kPack || placement == Placement::kSpread)) {
          ASSERT_EQ(grants.has_value(), room >= asked.size());
        }
        if (!grants) {
          EXPECT_FALSE(ledger.why_waits(asked, placement, holder_name).empty());
          continue;
        }
        std::set<NodeId> nodes;
        for (size_t i = 0; i < asked.size(); ++i) {
          EXPECT_EQ((*grants)[i].amounts, asked[i].resources);
          nodes.insert((*grants)[i].node);
          take((*grants)[i]);
        }
        if (placement == Placement::kStrictPack) {
          EXPECT_EQ(nodes.size(), 1u);
        }
        if (placement == Placement::kStrictSpread) {
          EXPECT_EQ(nodes.size(), asked.size());
        }
      }
      for (size_t i = 0; i < free.size(); ++i) {
        ASSERT_EQ(ledger.available(static_cast<NodeId>(i + 1)), free[i]);
      }
    }
  }
}

// Large clusters: this takes milliseconds, and would take minutes if it were cubic.
TEST(LedgerTest, AThousandNodesAndAGangOfAThousand) {
  for (auto placement : {Placement::kPack, Placement::kSpread, Placement::kStrictSpread}) {
    for (double each : {1.0, 128.0}) {
      SCOPED_TRACE(str(to_string(placement), " ", each));
      Ledger ledger = ledger_of(std::vector<Resources>(1000, {.cpus = 128}));
      auto grants = ledger.acquire_gang(std::vector(1000, cpus(each)), placement, 1);
      ASSERT_TRUE(grants);
      for (const Grant& grant : *grants) ledger.release(grant);
      EXPECT_EQ(ledger.available().cpus, 128'000);
    }
  }
}

}  // namespace
}  // namespace manta
