#include <gtest/gtest.h>

#include "manta/data/current_step_internal.h"

namespace manta::data {
namespace {

TEST(CurrentStepTest, IsThatOfTheLoopThatTookABatchLastAndGoesOn) {
  const StepTaken first{{0, 10}, {0, 5}}, second{{10, 9}, {10, 4}}, validation{{0, 3}, {0, 1}};
  CurrentStep current;
  int outer = 0, inner = 0;
  EXPECT_EQ(current.get(), std::nullopt);
  current.set(&outer, first);
  current.set(&inner, validation);
  EXPECT_EQ(current.get(), validation);
  current.set(&outer, second);
  EXPECT_EQ(current.get(), second);
  current.forget(&outer);
  EXPECT_EQ(current.get(), validation);
  current.forget(&inner);
  EXPECT_EQ(current.get(), std::nullopt);
}

}  // namespace
}  // namespace manta::data
