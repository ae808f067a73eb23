// Nodes and placement, as seen by a program on one machine.

#include "manta/core/node.h"

#include <gmock/gmock.h>

#include "manta/base/error_internal.h"
#include "manta/core/actor.h"
#include "manta/core/init.h"
#include "manta/core/patience_internal.h"
#include "manta/core/remote.h"

namespace manta {
namespace {

using testing::HasSubstr;

struct Idle {
  int one() { return 1; }
};

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Nodes, OneMachineIsOneNode) {
  auto all = nodes();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].id, 0u);
  EXPECT_EQ(all[0].total, cluster_resources());
  EXPECT_EQ(all[0].free, available_resources());
  EXPECT_EQ(all[0].address, "");
  EXPECT_EQ(all[0].state, NodeState::kAlive);
  RuntimeContext here = get_runtime_context();
  EXPECT_EQ(here.node, all[0].host);
  EXPECT_FALSE(here.node.empty());
  auto there = remote([] { return get_runtime_context().node; });
  EXPECT_EQ(get(there, kPatience), here.node);
  EXPECT_EQ(get(remote([] { return nodes().size(); }), kPatience), 1u);
}

TEST(Nodes, LabelsAreAsked) {
  auto one = [] { return 1; };
  EXPECT_EQ(get(remote({.labels = {{"role", "driver"}}}, one), kPatience), 1);
  EXPECT_THAT(refusal([&] {
                remote({.labels = {{"zone", "a"}}}, one);
              }),
              HasSubstr("with zone=a; no node has these labels"));
  EXPECT_THAT(refusal([&] {
                remote({.labels = {{"", "a"}}}, one);
              }),
              HasSubstr("a label needs a name"));
  EXPECT_THAT(refusal([&] {
                actor<Idle>({.labels = {{"zone", "a"}}});
              }),
              HasSubstr("with zone=a; no node has these labels"));
}

TEST(Nodes, EveryPlacementIsOneMachineButStrictSpread) {
  for (auto placement :
       {Placement::kPack, Placement::kSpread, Placement::kStrictPack, Placement::kStrictSpread}) {
    EXPECT_EQ(get(remote({.placement = placement}, [] { return 1; }), kPatience), 1);
    std::vector<ActorOptions> two(2, ActorOptions{.placement = placement});
    if (placement == Placement::kStrictSpread) {
      EXPECT_THAT(refusal([&] { actor_group<Idle>(two); }), HasSubstr("each on another node"));
    } else {
      auto group = actor_group<Idle>(two);
      EXPECT_EQ(get(group[1].call<&Idle::one>(), kPatience), 1);
    }
  }
  EXPECT_THAT(refusal([] {
                actor_group<Idle>({{.placement = Placement::kSpread}, {}});
              }),
              HasSubstr("give all of them the same placement"));
}

// The hub refuses a request even if the worker could not know that it is impossible.
TEST(Nodes, AWorkerIsRefusedToo) {
  auto text = remote([] {
    return refusal([] {
             remote({.labels = {{"zone", "a"}}}, [] { return 1; });
           }) +
           refusal([] { remote({.resources = {.cpus = 64}}, [] { return 1; }); });
  });
  EXPECT_THAT(get(text, kPatience),
              testing::AllOf(HasSubstr("no node has these labels"),
                             HasSubstr("asks for 64 CPU, but this machine has only")));
}

}  // namespace
}  // namespace manta
