#include <arrow/api.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/exact_moments_internal.h"
#include "manta/preprocess/quantiles_internal.h"

namespace manta::preprocess {
namespace {

std::shared_ptr<arrow::DoubleArray> doubles_of(const std::vector<double>& values) {
  arrow::DoubleBuilder builder;
  check(builder.AppendValues(values), "a test column");
  return std::static_pointer_cast<arrow::DoubleArray>(check(builder.Finish(), "a test column"));
}

ExactMoments moments_of(const std::vector<double>& values) {
  ExactMoments moments;
  moments.add(*doubles_of(values));
  return moments;
}

TEST(ExactMomentsTest, LosesNothing) {
  EXPECT_EQ(moments_of({1e300, 1, -1e300}).mean(), 1 / 3.);
  EXPECT_EQ(moments_of({0.1, 0.1, 0.1}).mean(), 0.1);
  EXPECT_EQ(moments_of({0.1, 0.1, 0.1}).std(), 0);
  EXPECT_EQ(moments_of({5e-324, 1.5e-323}).mean(), 1e-323);  // of the smallest numbers there are
  EXPECT_EQ(moments_of({5e-324, 1.5e-323}).std(), 5e-324);
  EXPECT_EQ(moments_of({1e-200, 3e-200}).std(), 1e-200);
  constexpr double kMost = std::numeric_limits<double>::max();
  EXPECT_EQ(moments_of({kMost, kMost, kMost}).mean(), kMost);
  EXPECT_EQ(moments_of({kMost, -kMost}).std(), kMost);
  EXPECT_EQ(moments_of({1e15, 1e15 + 0.25}).std(), 0.125);
  EXPECT_EQ(moments_of({-0.0, 0.0}).min(), 0);
  EXPECT_FALSE(std::signbit(moments_of({-0.0}).min()));
  EXPECT_EQ(moments_of({NAN, 2, NAN}).count(), 1);
  EXPECT_TRUE(moments_of({INFINITY, 2}).has_infinite());
  EXPECT_EQ(moments_of({-3, 1}).mean(), -1);
}

// The sums of one power of two grow beyond 128 bits.
TEST(ExactMomentsTest, ManyEqualNumbersDoNotOverflow) {
  constexpr int kDoublings = 30;
  auto moments = moments_of({1.5, 1.25});
  for (int i = 0; i < kDoublings; ++i) {
    auto copy = moments_of({});
    copy.merge(moments);
    moments.merge(copy);
  }
  EXPECT_EQ(moments.count(), int64_t{2} << kDoublings);
  EXPECT_EQ(moments.mean(), 1.375);
  EXPECT_EQ(moments.std(), 0.125);
}

TEST(ExactMomentsTest, AnyOrderAndCutGivesTheSameBits) {
  std::mt19937_64 random(3);
  std::vector<double> values;
  for (int i = 0; i < 5000; ++i) {
    // Numbers of any exponent.
    values.push_back(
        std::ldexp(static_cast<double>(random()) - 9e18, static_cast<int>(random() % 1900) - 1010));
  }
  auto all = moments_of(values);
  for (int cut : {1, 7, 100, 4999}) {
    std::shuffle(values.begin(), values.end(), random);
    ExactMoments parts;
    for (size_t i = 0; i < values.size(); i += static_cast<size_t>(cut)) {
      auto end = std::min(values.size(), i + static_cast<size_t>(cut));
      parts.merge(moments_of(
          {values.begin() + static_cast<int64_t>(i), values.begin() + static_cast<int64_t>(end)}));
    }
    double results[] = {all.mean(), all.std()}, again[] = {parts.mean(), parts.std()};
    EXPECT_EQ(std::memcmp(results, again, sizeof(results)), 0) << again[0] << " " << again[1];
  }
}

// With room for all values, or in four passes without it, in parts that are merged in any way.
TEST(QuantilesTest, AreExactWithAndWithoutRoom) {
  std::mt19937_64 random(4);
  std::vector<double> values;
  for (int i = 0; i < 3000; ++i) {
    values.push_back(i % 3 == 0 ? 7 : std::normal_distribution<>(0, 1e3)(random));
  }
  values.push_back(-INFINITY);
  values.push_back(-0.0);
  values.push_back(5e-324);
  auto sorted = values;
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> quantiles = {0, 0.1, 0.25, 0.5, 0.987, 1};
  std::vector<double> expected;
  for (double quantile : quantiles) {  // as numpy.quantile
    double place = quantile * static_cast<double>(sorted.size() - 1);
    auto below = static_cast<size_t>(place);
    double a = sorted[below], b = sorted[std::min(below + 1, sorted.size() - 1)];
    double share = place - std::floor(place);
    expected.push_back(a == b ? a : share < 0.5 ? a + (b - a) * share : b - (b - a) * (1 - share));
  }
  expected[0] = -INFINITY;
  for (int64_t room : {int64_t{0}, int64_t{1000}, int64_t{1} << 20}) {
    QuantileSearch search(quantiles);
    int passes = 0;
    for (; !search.is_done(); ++passes) {
      auto left = room_for_values(room);
      QuantileTally first(search, left), second(search, left);
      for (size_t i = 0; i < values.size(); i += 500) {
        auto end = std::min(values.size(), i + 500);
        auto part = doubles_of(
            {values.begin() + static_cast<int64_t>(i), values.begin() + static_cast<int64_t>(end)});
        (i % 1000 == 0 ? first : second).add(*part);
      }
      second.merge(first);
      second.finish(search);
    }
    EXPECT_EQ(passes, room < 3000 ? 4 : 1);
    EXPECT_EQ(search.found()[0], -INFINITY);
    for (size_t i = 1; i < quantiles.size(); ++i) EXPECT_EQ(search.found()[i], expected[i]) << room;
  }
}

}  // namespace
}  // namespace manta::preprocess
