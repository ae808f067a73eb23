#include <gtest/gtest.h>

#include "manta/torch/parameter_digest_internal.h"

namespace manta::detail {
namespace {

TEST(ParameterDigest, SeesNamesShapesAndValues) {
  auto values = torch::arange(12, torch::kFloat32);
  uint64_t digest = parameter_digest({{"w", values}});
  EXPECT_EQ(parameter_digest({{"w", values.clone()}}), digest);
  EXPECT_NE(parameter_digest({{"v", values}}), digest);
  EXPECT_NE(parameter_digest({{"w", values.view({3, 4})}}), digest);
  EXPECT_NE(parameter_digest({{"w", values + 1}}), digest);
  EXPECT_NE(parameter_digest({{"w", values}, {"empty", torch::empty({0})}}), digest);
  auto square = torch::rand({5, 5});
  EXPECT_EQ(parameter_digest({{"w", square.t()}}),
            parameter_digest({{"w", square.t().contiguous()}}));
}

// 64 MiB: a change by training shows, wherever the large tensor lies.
TEST(ParameterDigest, SamplesLargeModels) {
  auto small = torch::zeros({100});
  auto large = torch::zeros({16, 1 << 20});
  uint64_t digest = parameter_digest({{"small", small}, {"large", large}});
  EXPECT_EQ(parameter_digest({{"small", small}, {"large", large.clone()}}), digest);
  EXPECT_NE(parameter_digest({{"small", small + 1}, {"large", large}}), digest);
  for (int64_t row : {0, 7, 15}) {
    auto changed = large.clone();
    changed[row].add_(1e-6);
    EXPECT_NE(parameter_digest({{"small", small}, {"large", changed}}), digest) << row;
  }
}

// A row of a transposed matrix has a stride, and its neighbours in memory are values of other rows.
TEST(ParameterDigest, SamplesTheValuesOfTensorsWithStrides) {
  auto matrix = torch::rand({1 << 20, 2});
  auto column = matrix.select(1, 0);
  uint64_t digest = parameter_digest({{"w", column}});
  EXPECT_EQ(parameter_digest({{"w", column.clone()}}), digest);
  matrix.select(1, 1).add_(1);
  EXPECT_EQ(parameter_digest({{"w", column}}), digest);
}

}  // namespace
}  // namespace manta::detail
