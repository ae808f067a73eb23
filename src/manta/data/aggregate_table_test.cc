// Every aggregate of columns of every type, over random groups with nulls, NaN and groups without a
// value, against numpy and pandas: expected/aggregates.inc.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <cmath>

#include "manta/data/grouped.h"
#include "manta/data/wide_fixture_internal.h"

namespace manta::data {
namespace {

const Json& aggregates_expected() {
#include "manta/data/expected/aggregates.inc"
  static const Json all = [&] {
    std::string text;
    for (const char* part : kAggregatesExpected) text += part;
    return Json::parse(text);
  }();
  return all;
}

struct Squares {
  struct State {
    double sum = 0;
    bool any = false;
  };
  void accumulate(State& state, const BatchPtr& rows) const {
    auto& values = static_cast<const arrow::DoubleArray&>(*rows->column(0));
    for (int64_t i = 0; i < values.length(); ++i) {
      if (values.IsNull(i)) continue;
      state.sum += values.Value(i) * values.Value(i);
      state.any = true;
    }
  }
  void merge(State& state, const State& later) const {
    state.sum += later.sum;
    state.any = state.any || later.any;
  }
  std::optional<double> finalize(const State& state) const {
    return state.any ? std::optional(state.sum) : std::nullopt;
  }
};

Aggregate aggregate_of(const std::string& kind, double parameter) {
  if (kind == "count") return agg::count("v");
  if (kind == "sum") return agg::sum("v");
  if (kind == "min") return agg::min("v");
  if (kind == "max") return agg::max("v");
  if (kind == "mean") return agg::mean("v");
  if (kind == "std") return agg::std("v", static_cast<int>(parameter));
  if (kind == "quantile") return agg::quantile("v", parameter);
  if (kind == "unique") return agg::unique("v");
  return agg::custom<Squares>({"v"});
}

// The script gives groups of these keys no values.
bool is_gone(const std::string& key, const Json& value) {
  return (key == "i" && value == 3) || (key == "s" && value == "z");
}

Dataset rows_for(const Json& one) {
  const Json& all = wide_expected()["columns"];
  Json columns = {{"v", all[one["column"].get<std::string>()]}};
  for (const Json& key : one["keys"]) {
    auto name = key.get<std::string>();
    columns[name] = all[name];
    for (size_t i = 0; i < all[name]["values"].size(); ++i) {
      if (is_gone(name, all[name]["values"][i])) columns["v"]["values"][i] = nullptr;
    }
  }
  return from_arrow(wide_table(columns));
}

void expect_same(const arrow::Scalar& given, const Json& expected) {
  if (expected.is_null()) {
    EXPECT_FALSE(given.is_valid) << given.ToString();
    return;
  }
  ASSERT_TRUE(given.is_valid) << expected;
  if (expected.is_array()) {
    auto& list = *static_cast<const arrow::BaseListScalar&>(given).value;
    ASSERT_EQ(list.length(), static_cast<int64_t>(expected.size()));
    for (int64_t i = 0; i < list.length(); ++i) {
      expect_same(*check(list.GetScalar(i), "a value"), expected[static_cast<size_t>(i)]);
    }
  } else if (given.type->id() == arrow::Type::DOUBLE) {
    double number = static_cast<const arrow::DoubleScalar&>(given).value;
    double other =
        expected.is_string() ? std::stod(expected.get<std::string>()) : expected.get<double>();
    if (std::isfinite(other)) {
      EXPECT_NEAR(number, other, 1e-11 * std::abs(other));
    } else {
      EXPECT_TRUE(number == other || (std::isnan(number) && std::isnan(other))) << number;
    }
  } else {
    std::string text = expected.is_string() ? expected.get<std::string>() : expected.dump();
    EXPECT_EQ(given.ToString(), text);
  }
}

TEST(AggregateTableTest, AsNumpyAndPandas) {
  for (const Json& one : aggregates_expected()) {
    SCOPED_TRACE(one["kind"].dump() + " of " + one["column"].dump() + " by " + one["keys"].dump());
    auto keys = one["keys"].get<std::vector<std::string>>();
    auto aggregate = aggregate_of(one["kind"], one["parameter"].get<double>()).as("result");
    Dataset rows = rows_for(one);
    auto table = keys.empty()
                     ? check(arrow::Table::FromRecordBatches({rows.aggregate({aggregate})}), "all")
                     : rows.groupby(keys).aggregate({aggregate}).to_table();
    ASSERT_EQ(table->num_rows(), static_cast<int64_t>(one["values"].size()));
    auto results = table->GetColumnByName("result");
    for (int64_t i = 0; i < table->num_rows(); ++i) {
      SCOPED_TRACE(i);
      expect_same(*check(results->GetScalar(i), "a result"), one["values"][static_cast<size_t>(i)]);
    }
  }
}

}  // namespace
}  // namespace manta::data
