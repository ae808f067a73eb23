#include <arrow/api.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "manta/data/ordered_places_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

using testing::ElementsAreArray;

template <class Value>
using Keys = std::vector<std::optional<Value>>;

// In batches of `rows_of_batch`, with places that grow but do not count.
template <class Value>
Batches batches_of(const Keys<Value>& keys, size_t rows_of_batch) {
  Batches batches;
  for (size_t begin = 0; begin < keys.size(); begin += rows_of_batch) {
    typename arrow::CTypeTraits<Value>::BuilderType lane;
    arrow::Int64Builder places;
    for (size_t i = begin; i < std::min(keys.size(), begin + rows_of_batch); ++i) {
      check(keys[i] ? lane.Append(*keys[i]) : lane.AppendNull(), "keys");
      check(places.Append(static_cast<int64_t>(3 * i)), "places");
    }
    auto rows = lane.length();
    batches.push_back(
        lanes_batch({check(lane.Finish(), "keys"), check(places.Finish(), "places")}, rows));
  }
  return batches;
}

NextBatch next_of(Batches& batches) {
  return [&, given = size_t{0}]() mutable {
    return given == batches.size() ? nullptr : std::move(batches[given++]);
  };
}

template <class Value>
OrderKey key_of(bool descending, bool nulls_first) {
  return {arrow::CTypeTraits<Value>::type_singleton(), descending, nulls_first};
}

template <class Value>
std::vector<int64_t> ordered(const Keys<Value>& keys, const OrderKey& key, int threads,
                             size_t rows_of_batch) {
  auto batches = batches_of(keys, rows_of_batch);
  std::vector<int64_t> places;
  bool ended =
      give_ordered_places(next_of(batches), key, {.threads = threads}, [&](const auto& batch) {
        EXPECT_EQ(places.size() % kPieceRows, 0u);
        EXPECT_LE(batch->num_rows(), kPieceRows);
        auto& lane = static_cast<const arrow::Int64Array&>(*batch->column(0));
        places.insert(places.end(), lane.raw_values(), lane.raw_values() + lane.length());
      });
  EXPECT_TRUE(ended);
  return places;
}

// By the standard library.
template <class Value>
std::vector<int64_t> expected(const Keys<Value>& keys, const OrderKey& key) {
  std::vector<size_t> rows(keys.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
    if (!keys[a] || !keys[b]) return key.nulls_first ? !keys[a] && keys[b] : keys[a] && !keys[b];
    return key.descending ? *keys[b] < *keys[a] : *keys[a] < *keys[b];
  });
  std::vector<int64_t> places;
  for (size_t row : rows) places.push_back(static_cast<int64_t>(3 * row));
  return places;
}

template <class Value>
void expect_order(const Keys<Value>& keys) {
  for (bool descending : {false, true}) {
    for (bool nulls_first : {false, true}) {
      auto key = key_of<Value>(descending, nulls_first);
      auto right = expected(keys, key);
      for (int threads : {1, 3}) {
        SCOPED_TRACE(testing::Message()
                     << key.lane->ToString() << " descending " << descending << " nulls first "
                     << nulls_first << " threads " << threads);
        // Not element by element: that takes long, and says too much.
        EXPECT_TRUE(ordered(keys, key, threads, 7'001) == right);
      }
    }
  }
}

template <class Value>
class OrderedPlacesTest : public testing::Test {};
using Lanes =
    testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(OrderedPlacesTest, Lanes);

TYPED_TEST(OrderedPlacesTest, LimitsAndNulls) {
  using Limits = std::numeric_limits<TypeParam>;
  TypeParam middle = Limits::max() / 2;
  Keys<TypeParam> keys = {5, Limits::max(), {}, Limits::min(), 0, middle, {}, Limits::max(), 5};
  keys.push_back(static_cast<TypeParam>(middle + 1));
  if constexpr (std::is_signed_v<TypeParam>) keys.insert(keys.end(), {-1, -5, Limits::min() + 1});
  expect_order(keys);
}

TYPED_TEST(OrderedPlacesTest, AnyBits) {
  std::mt19937_64 random(1);
  Keys<TypeParam> keys(200'000);
  for (auto& key : keys) {
    if (random() % 50 != 0) key = static_cast<TypeParam>(random());
  }
  expect_order(keys);
}

TYPED_TEST(OrderedPlacesTest, FewRows) {
  expect_order<TypeParam>({});
  expect_order<TypeParam>({{}});
  expect_order<TypeParam>({3});
  expect_order<TypeParam>({{}, {}, {}});
}

// Rows that no digit tells apart, or one only at the end, and one part that has nearly all of them.
TEST(OrderedPlacesTest, RowsThatAreHardToSplit) {
  constexpr size_t kRows = 100'000;
  std::mt19937_64 random(2);
  Keys<int64_t> same(kRows, 42), late(kRows), skewed(kRows), falling(kRows), doubles(kRows),
      low(kRows);
  for (size_t i = 0; i < kRows; ++i) {
    late[i] = static_cast<int64_t>((uint64_t{1} << 62) + random() % 3);
    skewed[i] = i % 1000 == 0 ? static_cast<int64_t>(random()) : static_cast<int64_t>(random() % 9);
    falling[i] = -static_cast<int64_t>(i / 3);
    // Parts of which the highest bits are equal, and the lowest ones are in no order.
    low[i] = static_cast<int64_t>((random() % 32 << 50) + (random() % 2 << 40) + random() % 3000);
    doubles[i] = std::bit_cast<int64_t>(static_cast<double>(random() % 3000) / 100);
  }
  skewed[0] = {};
  for (const auto* keys : {&same, &late, &skewed, &falling, &doubles, &low}) expect_order(*keys);
}

TEST(OrderedPlacesTest, OneIntegerOnly) {
  EXPECT_TRUE(can_order_places({{arrow::int64()}}));
  EXPECT_FALSE(can_order_places({{arrow::int64()}, {arrow::int64()}}));
  EXPECT_FALSE(can_order_places({{arrow::binary()}}));
  EXPECT_FALSE(can_order_places({{arrow::fixed_size_binary(16)}}));
}

TEST(OrderedPlacesTest, StopsWhenAsked) {
  Keys<int64_t> keys(500'000);
  std::mt19937_64 random(3);
  for (auto& key : keys) key = static_cast<int64_t>(random());
  for (int threads : {1, 2}) {
    for (int allowed : {0, 1, 11, 15, 20}) {
      SCOPED_TRACE(allowed);
      auto batches = batches_of(keys, 50'000);
      auto work = std::make_shared<WorkCount>();
      bool took = false;
      WideLimits limits{
          .threads = threads, .stopping = [&] { return work->done() >= allowed; }, .work = work};
      EXPECT_FALSE(give_ordered_places(next_of(batches), {arrow::int64()}, limits,
                                       [&](const auto&) { took = true; }));
      EXPECT_FALSE(took);
    }
  }
}

TEST(OrderedPlacesTest, StopsBetweenTheBatchesThatItGives) {
  auto batches = batches_of(Keys<int64_t>(3 * kPieceRows, 1), kPieceRows);
  int taken = 0;
  EXPECT_FALSE(give_ordered_places(next_of(batches), {arrow::int64()},
                                   {.stopping = [&] { return taken == 2; }},
                                   [&](const auto&) { ++taken; }));
  EXPECT_EQ(taken, 2);
}

TEST(OrderedPlacesTest, CountsTheBatchesThatItGives) {
  auto batches = batches_of(Keys<int64_t>(3 * kPieceRows, 1), kPieceRows);
  auto work = std::make_shared<WorkCount>();
  std::vector<int64_t> done;
  EXPECT_TRUE(give_ordered_places(next_of(batches), {arrow::int64()}, {.work = work},
                                  [&](const auto&) { done.push_back(work->done()); }));
  ASSERT_EQ(done.size(), 3u);
  EXPECT_LT(done[0], done[1]);
  EXPECT_LT(done[1], done[2]);
}

TEST(OrderedPlacesTest, WhatTakesThemMayThrow) {
  auto batches = batches_of(Keys<int64_t>(10, 1), 10);
  EXPECT_THROW(
      give_ordered_places(next_of(batches), {arrow::int64()}, {.threads = 2},
                          [](const auto&) { throw Error(ErrorKind::kIo, "the disk is full"); }),
      Error);
}

}  // namespace
}  // namespace manta::data
