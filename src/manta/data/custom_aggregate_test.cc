#include "manta/data/custom_aggregate.h"

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include "manta/data/grouped.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"

namespace manta::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct GeometricMean {
  struct State {
    double logs = 0;
    int64_t count = 0;
  };
  void accumulate(State& state, const Row& row) const {
    auto value = row.get<std::optional<double>>("x");
    if (!value) return;
    state.logs += std::log(*value);
    ++state.count;
  }
  void merge(State& state, const State& later) const {
    state.logs += later.logs;
    state.count += later.count;
  }
  std::optional<double> finalize(const State& state) const {
    if (state.count == 0) return std::nullopt;
    return std::exp(state.logs / static_cast<double>(state.count));
  }
};

// Depends on the order of rows and on where they are cut: how many rows each part had, and the sum
// of id * place.
struct Trace {
  struct State {
    std::string parts;
    int64_t rows = 0;
    uint64_t sum = 0;
  };
  void accumulate(State& state, const BatchPtr& rows) const {
    auto& ids = static_cast<const arrow::Int64Array&>(*rows->column(0));
    for (int64_t i = 0; i < ids.length(); ++i) {
      state.sum += static_cast<uint64_t>(ids.Value(i)) * static_cast<uint64_t>(++state.rows);
    }
    state.parts += std::to_string(rows->num_rows()) + " ";
  }
  void merge(State& state, const State& later) const {
    state.parts += later.parts;
    state.sum = state.sum * 31 + later.sum;
    state.rows += later.rows;
  }
  std::string finalize(const State& state) const {
    return state.parts + "rows, " + std::to_string(state.sum);
  }
};

struct AtLeast {
  using Args = Json;
  struct State {
    int64_t count = 0;
  };
  explicit AtLeast(const Json& args) : least(args.at("least").get<double>()) {}
  void accumulate(State& state, const Row& row) const {
    state.count += row.get<double>("x") >= least;
  }
  void merge(State& state, const State& later) const { state.count += later.count; }
  int64_t finalize(const State& state) const { return state.count; }
  double least;
};

struct Fails {
  struct State {};
  void accumulate(State&, const Row& row) const {
    if (row.get<int64_t>("id") == 3) throw std::runtime_error("three");
  }
  void merge(State&, const State&) const {}
  std::vector<double> finalize(const State&) const { return {1, 2}; }
};

const auto at_least = named_aggregate<AtLeast>("custom_aggregate_test.at_least");

Dataset numbers() {
  std::vector<Json> items;
  auto add = [&](Json key, Json x) {
    items.push_back({{"k", std::move(key)}, {"x", std::move(x)}});
  };
  add("b", 2.0);
  add("a", 1.0);
  add("b", 8.0);
  add(nullptr, 5.0);
  add("a", nullptr);
  add("c", nullptr);
  return from_items(items);
}

std::vector<Row> rows_of(const Dataset& dataset) {
  std::vector<Row> rows;
  for (const auto& row : dataset.iter_rows()) rows.push_back(row);
  return rows;
}

std::vector<std::string> texts(const Dataset& dataset) {
  std::vector<std::string> all;
  for (const auto& row : rows_of(dataset)) all.push_back(row.to_string());
  return all;
}

TEST(CustomAggregateTest, OfGroups) {
  auto given = numbers().groupby("k").aggregate({agg::custom<GeometricMean>({"x"}).as("gm")});
  EXPECT_EQ(given.schema()->ToString(), "k: string\ngm: double");
  auto rows = rows_of(given);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].get<std::string>("k"), "a");
  EXPECT_DOUBLE_EQ(rows[0].get<double>("gm"), 1);
  EXPECT_EQ(rows[1].get<std::string>("k"), "b");
  EXPECT_DOUBLE_EQ(rows[1].get<double>("gm"), 4);
  EXPECT_TRUE(rows[2].is_null("gm"));
  EXPECT_TRUE(rows[3].is_null("k"));
  EXPECT_DOUBLE_EQ(rows[3].get<double>("gm"), 5);
}

TEST(CustomAggregateTest, BesideOthersInTheOrderThatWasAskedFor) {
  auto given = numbers().groupby("k").aggregate(
      {agg::count(), agg::custom<GeometricMean>({"x"}), agg::max("x")});
  EXPECT_THAT(given.columns(), ElementsAre("k", "count()", "GeometricMean(x)", "max(x)"));
  EXPECT_THAT(texts(given.select_columns({"k", "count()", "max(x)"})),
              testing::ElementsAreArray(
                  texts(numbers().groupby("k").aggregate({agg::count(), agg::max("x")}))));
  EXPECT_DOUBLE_EQ(rows_of(given)[1].get<double>("GeometricMean(x)"), 4);
}

TEST(CustomAggregateTest, OfAllRows) {
  auto row = numbers().aggregate({agg::custom<GeometricMean>({"x"}), agg::count("x")});
  Row values(row, 0);
  EXPECT_DOUBLE_EQ(values.get<double>("GeometricMean(x)"), std::pow(80, 0.25));
  EXPECT_EQ(values.get<int64_t>("count(x)"), 4);
}

TEST(CustomAggregateTest, OfNoRows) {
  auto none = numbers().filter(col("x") > 100);
  Row values(none.aggregate({agg::custom<GeometricMean>({"x"})}), 0);
  EXPECT_TRUE(values.is_null("GeometricMean(x)"));
  EXPECT_EQ(none.groupby("k").aggregate({agg::custom<GeometricMean>({"x"})}).count(), 0);
  EXPECT_EQ(none.groupby("k").aggregate({agg::custom<GeometricMean>({"x"}), agg::count()}).count(),
            0);
}

TEST(CustomAggregateTest, PartsAreCutAndMergedByTheRowsAlone) {
  auto rows = range(150'000).with_column("k", col("id") % 3);
  auto trace = agg::custom<Trace>({"id"}).as("trace");
  std::set<std::string> all, groups;
  for (int64_t blocks : {1, 4, 150}) {
    auto cut = rows.repartition(blocks);
    all.insert(Row(cut.aggregate({trace}), 0).get<std::string>("trace"));
    std::string each;
    for (const auto& text : texts(cut.groupby("k").aggregate({trace}))) each += text;
    groups.insert(each);
  }
  ASSERT_EQ(all.size(), 1u);
  EXPECT_THAT(*all.begin(), HasSubstr("32768 32768 32768 32768 18928 rows"));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_THAT(*groups.begin(), HasSubstr("32768 17232 rows"));
}

TEST(CustomAggregateTest, ManySmallGroups) {
  auto rows = range(100'000).with_column("k", col("id") % 20'000).with_column("x", col("id") * 1.0);
  auto given = rows.groupby("k").aggregate(
      {agg::custom(at_least, {"x"}, {{"least", 40'000.0}}).as("n"), agg::sum("id")});
  int64_t key = 0;
  for (const auto& row : given.iter_rows()) {
    ASSERT_EQ(row.get<int64_t>("k"), key);
    ASSERT_EQ(row.get<int64_t>("n"), 3);
    ASSERT_EQ(row.get<int64_t>("sum(id)"), 5 * key + 200'000);
    ++key;
  }
  EXPECT_EQ(key, 20'000);
}

TEST(CustomAggregateTest, ANamedOneCanBeStored) {
  auto given = numbers().drop_na({"x"}).groupby("k").aggregate(
      {agg::custom(at_least, {"x"}, {{"least", 5.0}})});
  auto stored =
      range(8)
          .with_column("x", col("id") * 1.0)
          .groupby("id")
          .aggregate({agg::custom(at_least, {"x"}, {{"least", 5.0}}).as("n"), agg::count()});
  auto again = Dataset::from_json(stored.to_json());
  EXPECT_THAT(texts(again), testing::ElementsAreArray(texts(stored)));
  EXPECT_THAT(texts(given)[1], HasSubstr("1"));
  auto message = message_of(ErrorKind::kInvalidArgument, [] {
    range(8)
        .with_column("x", col("id") * 1.0)
        .groupby("id")
        .aggregate({agg::custom<GeometricMean>({"x"})})
        .to_json();
  });
  EXPECT_THAT(message, HasSubstr("has no name"));
}

TEST(CustomAggregateTest, ErrorsNameIt) {
  auto message = message_of(ErrorKind::kUserCode, [] {
    range(8).groupby("id").aggregate({agg::custom<Fails>({"id"})}).take_all();
  });
  EXPECT_THAT(message, HasSubstr("accumulate of Fails(id) threw std::runtime_error: three"));
  message = message_of(ErrorKind::kNotFound,
                       [] { range(8).groupby("id").aggregate({agg::custom<Fails>({"idd"})}); });
  EXPECT_THAT(message, HasSubstr("idd"));
  message = message_of(ErrorKind::kInvalidArgument, [] { agg::custom<Fails>({}); });
  EXPECT_THAT(message, HasSubstr("at least one"));
}

TEST(CustomAggregateTest, ItMayGiveLists) {
  auto rows = rows_of(range(2).groupby("id").aggregate({agg::custom<Fails>({"id"}).as("v")}));
  EXPECT_THAT(rows[1].get<std::vector<double>>("v"), ElementsAre(1, 2));
}

// The beginning of a group is noticed between batches, too: the first batch has only rows of the
// first key.
TEST(CustomAggregateTest, LongKeysThatDifferAtTheirEndAreTwoGroups) {
  const std::string start(500, 'k');
  arrow::StringBuilder keys;
  arrow::DoubleBuilder values;
  for (int64_t i = 0; i < kPieceRows + 10; ++i) {
    ASSERT_TRUE(keys.Append(start + (i < kPieceRows ? "a" : "b")).ok());
    ASSERT_TRUE(values.Append(i < kPieceRows ? 1 : 8).ok());
  }
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("key", arrow::utf8()), arrow::field("x", arrow::float64())}),
      {keys.Finish().ValueOrDie(), values.Finish().ValueOrDie()});
  auto groups = from_arrow(table)
                    .groupby("key")
                    .aggregate({agg::custom<GeometricMean>({"x"})})
                    .to_table()
                    ->CombineChunksToBatch()
                    .ValueOrDie();
  ASSERT_EQ(groups->num_rows(), 2);
  auto& means = static_cast<const arrow::DoubleArray&>(*groups->column(1));
  EXPECT_NEAR(means.Value(0), 1, 1e-9);
  EXPECT_NEAR(means.Value(1), 8, 1e-9);
}

}  // namespace
}  // namespace manta::data
