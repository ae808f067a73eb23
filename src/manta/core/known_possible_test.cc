#include <gtest/gtest.h>

#include "manta/core/known_possible_internal.h"

namespace manta {
namespace {

TEST(KnownPossibleTest, KnowsWhatWasAddedUntilNodesChange) {
  KnownPossible known;
  const Labels on_n1 = {{"node", "n1"}};
  EXPECT_FALSE(known.contains({.cpus = 1}, on_n1));
  known.add({.cpus = 1}, on_n1);
  EXPECT_TRUE(known.contains({.cpus = 1}, on_n1));
  EXPECT_FALSE(known.contains({.cpus = 2}, on_n1));
  EXPECT_FALSE(known.contains({.cpus = 1}, {{"node", "n2"}}));
  known.forget();
  EXPECT_FALSE(known.contains({.cpus = 1}, on_n1));
}

TEST(KnownPossibleTest, ForgetsTheOldestOfTooMany) {
  KnownPossible known;
  for (int i = 0; i < 100; ++i) known.add({.cpus = 1}, {{"node", std::to_string(i)}});
  EXPECT_FALSE(known.contains({.cpus = 1}, {{"node", "0"}}));
  EXPECT_TRUE(known.contains({.cpus = 1}, {{"node", "99"}}));
}

}  // namespace
}  // namespace manta
