#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "manta/base/error_internal.h"
#include "manta/core/node_ledger_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Resources kTotal{.cpus = 4, .gpus = 2, .memory = 1000, .custom = {{"disk", 2}}};

std::string task(uint64_t holder) { return str("task ", holder); }

TEST(NodeLedgerTest, WhatIsTakenIsGone) {
  NodeLedger ledger(kTotal);
  EXPECT_EQ(ledger.available(), kTotal);
  auto first = ledger.acquire({.cpus = 3}, 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->holder, 1u);
  EXPECT_NE(first->number, 0u);
  EXPECT_FALSE(ledger.acquire({.cpus = 2}, 2));
  auto second = ledger.acquire({.cpus = 1}, 2);
  ASSERT_TRUE(second);
  EXPECT_EQ(ledger.available().cpus, 0);
  EXPECT_FALSE(ledger.acquire({.cpus = 0.0001}, 3));
  EXPECT_TRUE(ledger.acquire({.cpus = 0}, 3));  // asks for nothing
  ledger.release(*first);
  ledger.release(*second);
  EXPECT_EQ(ledger.available(), kTotal);
  EXPECT_EQ(ledger.total(), kTotal);
}

TEST(NodeLedgerTest, EachResourceIsCounted) {
  for (const Resources& all : std::vector<Resources>{
           {.cpus = 4}, {.gpus = 2}, {.memory = 1000}, {.custom = {{"disk", 2}}}, kTotal}) {
    SCOPED_TRACE(to_string(all));
    NodeLedger ledger(kTotal);
    auto grant = ledger.acquire(all, 1);
    ASSERT_TRUE(grant);
    EXPECT_FALSE(ledger.acquire(all, 2));
    ledger.release(*grant);
    EXPECT_EQ(ledger.available(), kTotal);
    EXPECT_TRUE(ledger.acquire(all, 2));
  }
}

TEST(NodeLedgerTest, TenTenthsAreOne) {
  NodeLedger ledger({.cpus = 1, .gpus = 1, .custom = {{"disk", 1}}});
  std::vector<Grant> grants;
  for (int i = 0; i < 10; ++i) {
    auto grant = ledger.acquire({.cpus = 0.1, .gpus = 0.1, .custom = {{"disk", 0.1}}}, 1);
    ASSERT_TRUE(grant) << i;
    grants.push_back(*grant);
  }
  EXPECT_EQ(ledger.available(), (Resources{.cpus = 0, .custom = {{"disk", 0}}}));
  EXPECT_FALSE(ledger.acquire({.cpus = 0.0001}, 1));
  for (const auto& grant : grants) ledger.release(grant);
  EXPECT_EQ(ledger.available(), ledger.total());
}

TEST(NodeLedgerTest, ARefusalTakesNothing) {
  NodeLedger ledger(kTotal);
  for (const Resources& asked :
       std::vector<Resources>{{.cpus = 5},
                              {.gpus = 3},
                              {.memory = 1001},
                              {.custom = {{"disk", 1}, {"tape", 1}}},
                              {.cpus = 1, .gpus = 1, .custom = {{"disk", 3}}}}) {
    EXPECT_FALSE(ledger.acquire(asked, 1)) << to_string(asked);
    EXPECT_EQ(ledger.available(), kTotal);
  }
}

TEST(NodeLedgerTest, GpusAreDevices) {
  NodeLedger ledger({.cpus = 0, .gpus = 3});
  auto first = ledger.acquire({.cpus = 0, .gpus = 1}, 1);
  auto two = ledger.acquire({.cpus = 0, .gpus = 2}, 2);
  ASSERT_TRUE(first && two);
  EXPECT_THAT(first->gpu_ids, ElementsAre(0));
  EXPECT_THAT(two->gpu_ids, ElementsAre(1, 2));
  EXPECT_FALSE(ledger.acquire({.cpus = 0, .gpus = 0.5}, 3));
  ledger.release(*first);
  auto again = ledger.acquire({.cpus = 0, .gpus = 1}, 3);
  ASSERT_TRUE(again);
  EXPECT_THAT(again->gpu_ids, ElementsAre(0));
}

TEST(NodeLedgerTest, SharesFillOneDeviceBeforeTheNext) {
  NodeLedger ledger({.cpus = 0, .gpus = 2});
  auto share = [&](double gpus) { return ledger.acquire({.cpus = 0, .gpus = gpus}, 1); };
  auto half = share(0.5);
  auto quarter = share(0.25);
  auto large = share(0.75);
  auto last = share(0.25);  // fits both: the device with less room gets it
  ASSERT_TRUE(half && quarter && large && last);
  EXPECT_THAT(half->gpu_ids, ElementsAre(0));
  EXPECT_THAT(quarter->gpu_ids, ElementsAre(0));
  EXPECT_THAT(large->gpu_ids, ElementsAre(1));
  EXPECT_EQ(ledger.available().gpus, 0.25);
  EXPECT_FALSE(share(0.5));
}

TEST(NodeLedgerTest, AWholeDeviceIsNotShared) {
  NodeLedger ledger({.cpus = 0, .gpus = 2});
  auto first = ledger.acquire({.cpus = 0, .gpus = 0.6}, 1);
  auto second = ledger.acquire({.cpus = 0, .gpus = 0.6}, 1);  // does not fit beside the first
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(ledger.acquire({.cpus = 0, .gpus = 1}, 2));
  ledger.release(*first);
  auto whole = ledger.acquire({.cpus = 0, .gpus = 1}, 2);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->gpu_ids, first->gpu_ids);
}

TEST(NodeLedgerTest, AcquireAllIsAllOrNone) {
  NodeLedger ledger(kTotal);
  EXPECT_FALSE(ledger.acquire_all({{.cpus = 2}, {.cpus = 1, .gpus = 2}, {.gpus = 1}}, 1));
  EXPECT_EQ(ledger.available(), kTotal);
  auto grants = ledger.acquire_all({{.cpus = 2, .gpus = 1}, {.cpus = 2, .gpus = 1}}, 1);
  ASSERT_TRUE(grants);
  ASSERT_EQ(grants->size(), 2u);
  EXPECT_NE((*grants)[0].gpu_ids, (*grants)[1].gpu_ids);
  EXPECT_EQ(ledger.available().cpus, 0);
  for (const auto& grant : *grants) ledger.release(grant);
  EXPECT_EQ(ledger.available(), kTotal);
  EXPECT_TRUE(ledger.acquire_all({}, 1));
}

TEST(NodeLedgerTest, ReleasingTwiceOrNothingIsHarmless) {
  NodeLedger ledger(kTotal);
  auto grant = ledger.acquire({.cpus = 2, .gpus = 1, .memory = 10, .custom = {{"disk", 1}}}, 1);
  ASSERT_TRUE(grant);
  ledger.release(*grant);
  ledger.release(*grant);
  ledger.release(Grant{{.cpus = 3}, {}, 0, 0, 0});
  EXPECT_EQ(ledger.available(), kTotal);
}

TEST(NodeLedgerTest, AHolderThatWaitsLendsItsCpusOnly) {
  NodeLedger ledger({.cpus = 2, .gpus = 1, .memory = 100});
  auto waiting = ledger.acquire({.cpus = 2, .gpus = 1, .memory = 100}, 1);
  ASSERT_TRUE(waiting);
  ledger.pause_cpus(*waiting);
  EXPECT_EQ(ledger.available(), (Resources{.cpus = 2, .gpus = 0, .memory = 0}));
  auto other = ledger.acquire({.cpus = 1}, 2);
  ASSERT_TRUE(other);

  ledger.resume_cpus(*waiting);  // at once, although one is in use
  EXPECT_EQ(ledger.available().cpus, -1);
  EXPECT_FALSE(ledger.acquire({.cpus = 0.0001}, 3));
  EXPECT_TRUE(ledger.acquire({.cpus = 0}, 3));
  EXPECT_THAT(ledger.why_waits({.cpus = 1}, task), HasSubstr("1 CPU (0 of 2 free)"));

  ledger.release(*other);
  EXPECT_EQ(ledger.available().cpus, 0);
  ledger.release(*waiting);
  EXPECT_EQ(ledger.available(), ledger.total());
}

TEST(NodeLedgerTest, WhyWaitsSaysWhatIsMissingAndWhoHasIt) {
  NodeLedger ledger(kTotal);
  EXPECT_EQ(ledger.why_waits(kTotal, task), "");
  ASSERT_TRUE(ledger.acquire({.cpus = 3}, 7));
  EXPECT_EQ(ledger.why_waits({.cpus = 1}, task), "");
  EXPECT_EQ(ledger.why_waits({.cpus = 2}, task),
            "waits for 2 CPU (1 of 4 free); held by task 7 (3 CPU)");
  ASSERT_TRUE(ledger.acquire({.cpus = 0, .gpus = 0.5, .custom = {{"disk", 1.5}}}, 8));
  EXPECT_EQ(ledger.why_waits({.cpus = 1, .gpus = 2, .custom = {{"disk", 1}}}, task),
            "waits for 2 GPU (1.5 of 2 free) and 1 disk (0.5 of 2 free); held by task 8 (0.5 GPU, "
            "1.5 disk)");
  EXPECT_EQ(ledger.why_waits({.memory = 1001}, task),
            "waits for 1001 bytes memory (1000 bytes of 1000 bytes free)");
  EXPECT_EQ(ledger.why_waits({.custom = {{"tape", 1}}}, task), "waits for 1 tape (0 of 0 free)");
}

TEST(NodeLedgerTest, WhyWaitsWritesBytesReadably) {
  NodeLedger ledger({.memory = 8ll << 30});
  ASSERT_TRUE(ledger.acquire({.cpus = 0, .memory = 7ll << 30}, 1));
  EXPECT_THAT(ledger.why_waits({.cpus = 0, .memory = 2ll << 30}, task),
              testing::Not(HasSubstr("e+")));
}

TEST(NodeLedgerTest, WhyWaitsNamesThreeHolders) {
  NodeLedger ledger(kTotal);
  for (uint64_t holder = 1; holder <= 4; ++holder) ASSERT_TRUE(ledger.acquire({}, holder));
  EXPECT_EQ(ledger.why_waits({}, task),
            "waits for 1 CPU (0 of 4 free); held by task 1 (1 CPU), task 2 (1 CPU), task 3 (1 CPU) "
            "and 1 more");
}

TEST(NodeLedgerTest, WhyWaitsExplainsDevicesThatAreAllShared) {
  NodeLedger ledger({.cpus = 0, .gpus = 2});
  ASSERT_TRUE(ledger.acquire({.cpus = 0, .gpus = 0.6}, 1));
  ASSERT_TRUE(ledger.acquire({.cpus = 0, .gpus = 0.6}, 2));
  std::string why = ledger.why_waits({.cpus = 0, .gpus = 0.5}, task);  // 0.8 are free, in two parts
  EXPECT_THAT(why, HasSubstr("waits for 0.5 GPU"));
  EXPECT_THAT(why, HasSubstr("held by task 1 (0.6 GPU), task 2 (0.6 GPU)"));
}

// A ledger agrees with a plain sum over what is held, whatever happens.
TEST(NodeLedgerTest, RandomOperationsKeepTheBalance) {
  std::mt19937 random(42);
  auto up_to = [&](int max) { return std::uniform_int_distribution<int>(0, max)(random); };
  NodeLedger ledger(kTotal);
  struct Held {
    Grant grant;
    bool paused = false;
  };
  std::vector<Held> held;
  auto drop = [&](size_t i) {
    if (held[i].paused) ledger.resume_cpus(held[i].grant);
    ledger.release(held[i].grant);
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (int step = 0; step < 20000; ++step) {
    int what = up_to(9);
    if (what < 5) {
      Resources asked{.cpus = up_to(30) / 10.0,
                      .gpus = up_to(3) ? up_to(9) / 10.0 : up_to(2),
                      .memory = up_to(400),
                      .custom = {{"disk", up_to(100) / 100.0}}};
      Resources before = ledger.available();
      std::string why = ledger.why_waits(asked, task);
      auto grant = ledger.acquire(asked, 1);
      ASSERT_EQ(why.empty(), grant.has_value()) << to_string(asked) << ' ' << why;
      if (grant) {
        held.push_back({*grant, false});
      } else {
        ASSERT_EQ(ledger.available(), before);
      }
    } else if (what < 8 && !held.empty()) {
      drop(static_cast<size_t>(up_to(static_cast<int>(held.size()) - 1)));
    } else if (!held.empty()) {
      Held& one = held[static_cast<size_t>(up_to(static_cast<int>(held.size()) - 1))];
      one.paused ? ledger.resume_cpus(one.grant) : ledger.pause_cpus(one.grant);
      one.paused = !one.paused;
    }
    Resources sum = kTotal;
    double& disk = sum.custom[0].second;
    std::vector<double> device(2, 1.0);
    for (const auto& [grant, paused] : held) {
      sum.cpus -= paused ? 0 : grant.amounts.cpus;
      sum.gpus -= grant.amounts.gpus;
      sum.memory -= grant.amounts.memory;
      disk -= amount_of(grant.amounts.custom, "disk");
      double share = std::min(1.0, grant.amounts.gpus);
      ASSERT_EQ(grant.gpu_ids.size(), static_cast<size_t>(std::ceil(grant.amounts.gpus)));
      for (int id : grant.gpu_ids) device[static_cast<size_t>(id)] -= share;
    }
    Resources free = ledger.available();
    ASSERT_NEAR(free.cpus, sum.cpus, 1e-9);
    ASSERT_NEAR(free.gpus, sum.gpus, 1e-9);
    ASSERT_EQ(free.memory, sum.memory);
    ASSERT_NEAR(amount_of(free.custom, "disk"), disk, 1e-9);
    ASSERT_LE(free.cpus, 4);
    ASSERT_GE(free.memory, 0);
    for (double left : device) ASSERT_GE(left, -1e-9);
  }
  while (!held.empty()) drop(held.size() - 1);
  EXPECT_EQ(ledger.available(), kTotal);
}

}  // namespace
}  // namespace manta
