#include <arrow/api.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "manta/data/aggregate.h"
#include "manta/data/grouped.h"
#include "manta/data/row_store_internal.h"
#include "manta/data/wide_fixture_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class GroupByTest : public testing::Test {
 protected:
  WideFiles files_;
};

void expect_number(const arrow::Table& table, const std::string& name, int64_t row,
                   const Json& expected) {
  auto& column = static_cast<const arrow::DoubleArray&>(*table.GetColumnByName(name)->chunk(0));
  ASSERT_EQ(column.IsNull(row), expected.is_null()) << name << " of row " << row;
  if (column.IsNull(row)) return;
  double number = expected.get<double>();
  EXPECT_NEAR(column.Value(row), number, 1e-12 * std::abs(number)) << name << " of row " << row;
}

TEST_F(GroupByTest, AggregatesAsPandasAndDuckDbDo) {
  for (const Json& one : wide_expected()["groups"]) {
    auto keys = one["keys"].get<std::vector<std::string>>();
    SCOPED_TRACE(one["keys"].dump());
    Dataset grouped = files_.left().groupby(keys).aggregate(
        {agg::count().as("rows"), agg::count("x").as("values"), agg::sum("n").as("total"),
         agg::min("s").as("least"), agg::max("t").as("latest"), agg::mean("x"), agg::std("x"),
         agg::quantile("x", 0.3), agg::sum("b").as("trues")});
    Dataset again = Dataset::from_json(Json::parse(grouped.to_json().dump()));
    for (const Dataset& dataset : {grouped, again}) {
      auto table = dataset.to_table();
      ASSERT_EQ(table->num_rows(), static_cast<int64_t>(one["rows"].size()));
      for (int64_t row = 0; row < table->num_rows(); ++row) {
        const Json& expected = one["rows"][static_cast<size_t>(row)];
        for (size_t i = 0; i < keys.size(); ++i) {
          const Json& key = expected["key"][i];
          std::string text = key.is_string() ? key.get<std::string>() : key.dump();
          EXPECT_EQ(scalar_text(*table, keys[i], row), text);
        }
        EXPECT_EQ(scalar_text(*table, "rows", row), expected["rows"].dump());
        EXPECT_EQ(scalar_text(*table, "values", row), expected["values"].dump());
        for (const char* name : {"total", "trues", "least"}) {
          const Json& value = expected[name];
          EXPECT_EQ(scalar_text(*table, name, row),
                    value.is_null() ? "null" : value.get<std::string>());
        }
        // Arrow writes all digits of the unit.
        std::string latest =
            expected["latest"].is_null() ? "null" : expected["latest"].get<std::string>();
        EXPECT_THAT(scalar_text(*table, "latest", row), testing::StartsWith(latest));
        expect_number(*table, "mean(x)", row, expected["mean"]);
        expect_number(*table, "std(x)", row, expected["std"]);
        expect_number(*table, "quantile(x)", row, expected["q3"]);
      }
    }
  }
}

TEST_F(GroupByTest, OfAllRows) {
  Dataset rows = files_.left();
  auto row = rows.aggregate(
      {agg::count(), agg::sum("id"), agg::min("f"), agg::max("f"), agg::unique("i")});
  EXPECT_EQ(row->ToString(), rows.aggregate({agg::count(), agg::sum("id"), agg::min("f"),
                                             agg::max("f"), agg::unique("i")})
                                 ->ToString());
  EXPECT_EQ(check(row->column(0)->GetScalar(0), "count")->ToString(), "240");
  EXPECT_EQ(rows.sum("id")->ToString(), "28680");
  EXPECT_EQ(rows.min("f")->ToString(), "-inf");
  EXPECT_EQ(rows.max("f")->ToString(), "inf");  // and not NaN
  EXPECT_EQ(rows.max("u")->ToString(), "18446744073709551615");
  EXPECT_DOUBLE_EQ(*rows.mean("id"), 119.5);
  EXPECT_NEAR(*rows.std("id"), std::sqrt(240 * 241 / 12.0), 1e-12);
  EXPECT_NEAR(*rows.std("id", 0), std::sqrt((240.0 * 240 - 1) / 12), 1e-12);
  EXPECT_EQ(rows.unique("i")->ToString(),
            check(arrow::ChunkedArray::Make(
                      {array_from_json(arrow::int32(), {-4, -3, -2, -1, 0, 1, 2, 3, 4, nullptr})}),
                  "i")
                ->ToString());
  Dataset none = rows.filter(col("id") < 0);
  EXPECT_FALSE(none.sum("id")->is_valid);
  EXPECT_EQ(none.mean("x"), std::nullopt);
  EXPECT_EQ(check(none.aggregate({agg::count()})->column(0)->GetScalar(0), "count")->ToString(),
            "0");
  EXPECT_EQ(none.unique("i")->length(), 0);
  EXPECT_EQ(none.groupby("i").count().count(), 0);
  EXPECT_EQ(rows.groupby("i").count().columns(), (std::vector<std::string>{"i", "count()"}));
}

Dataset of_column(const std::shared_ptr<arrow::DataType>& type, const char* values) {
  auto array = array_from_json(type, Json::parse(values));
  return from_arrow(arrow::Table::Make(arrow::schema({arrow::field("v", type)}), {array}));
}

TEST_F(GroupByTest, SumsOverflowWithAnErrorAndNeverWrap) {
  EXPECT_EQ(
      of_column(arrow::int64(), "[9223372036854775807, -9223372036854775808, 9223372036854775807]")
          .sum("v")
          ->ToString(),
      "9223372036854775806");
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [] { of_column(arrow::int64(), "[9223372036854775807, 1]").sum("v"); }),
              AllOf(HasSubstr("sum(v) is 9223372036854775808"),
                    HasSubstr("does not fit into int64"), HasSubstr("cast")));
  EXPECT_EQ(of_column(arrow::int8(), "[127, 127, null]").sum("v")->ToString(), "254");
  EXPECT_EQ(of_column(arrow::uint64(), "[18446744073709551614, 1]").sum("v")->ToString(),
            "18446744073709551615");
  EXPECT_THAT(message_of([] { of_column(arrow::uint64(), "[18446744073709551615, 1]").sum("v"); }),
              HasSubstr("18446744073709551616"));
  EXPECT_EQ(of_column(arrow::decimal128(10, 2), R"(["1.25", "-0.50", null])").sum("v")->ToString(),
            "0.75");
  EXPECT_EQ(of_column(arrow::decimal64(10, 2), R"(["1.25", "-0.50", null])").sum("v")->ToString(),
            "0.75");
  EXPECT_DOUBLE_EQ(*of_column(arrow::decimal128(10, 2), R"(["1.25", "-0.50"])").mean("v"), 0.375);
  const char* nines = R"(["99999999999999999999999999999999999999", "1"])";
  EXPECT_THAT(message_of([&] { of_column(arrow::decimal128(38, 0), nines).sum("v"); }),
              HasSubstr("does not fit into decimal128(38, 0)"));
  EXPECT_EQ(of_column(arrow::duration(arrow::TimeUnit::SECOND), "[5, 7]").sum("v")->ToString(),
            "12");
  // An int64 is not rounded on its way to a mean.
  EXPECT_EQ(*of_column(arrow::int64(), "[9007199254740993, 9007199254740993]").mean("v"),
            9007199254740992.0);
}

TEST_F(GroupByTest, NanAndInfinities) {
  double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  arrow::DoubleBuilder builder;
  arrow::Int64Builder group;
  for (auto [g, v] : std::vector<std::pair<int64_t, double>>{{0, 1},
                                                             {0, nan},
                                                             {1, inf},
                                                             {1, 2},
                                                             {2, nan},
                                                             {3, inf},
                                                             {3, -inf},
                                                             {4, -0.0},
                                                             {4, 0.0}}) {
    check(group.Append(g), "g");
    check(builder.Append(v), "v");
  }
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("g", arrow::int64()), arrow::field("v", arrow::float64())}),
      {check(group.Finish(), "g"), check(builder.Finish(), "v")});
  Dataset rows = from_arrow(table);
  auto result = rows.groupby("g")
                    .aggregate({agg::sum("v"), agg::mean("v"), agg::std("v"), agg::min("v"),
                                agg::max("v"), agg::quantile("v")})
                    .to_table();
  auto texts = [&](const std::string& name) {
    std::vector<std::string> all;
    for (int64_t i = 0; i < result->num_rows(); ++i) all.push_back(scalar_text(*result, name, i));
    return all;
  };
  auto is = [](std::initializer_list<std::string> values) {
    return std::vector<std::string>(values);
  };
  EXPECT_EQ(texts("sum(v)"), is({"nan", "inf", "nan", "nan", "0"}));
  EXPECT_EQ(texts("mean(v)"), is({"nan", "inf", "nan", "nan", "0"}));
  EXPECT_EQ(texts("std(v)"), is({"nan", "nan", "nan", "nan", "0"}));
  EXPECT_EQ(texts("min(v)"), is({"1", "2", "nan", "-inf", "0"}));
  EXPECT_EQ(texts("max(v)"), is({"1", "inf", "nan", "inf", "0"}));
  EXPECT_EQ(texts("quantile(v)"), is({"nan", "inf", "nan", "nan", "0"}));
  auto groups = rows.groupby("v").count().to_table();
  EXPECT_EQ(groups->num_rows(), 6);  // -inf, 0, 1, 2, inf, NaN
  EXPECT_EQ(scalar_text(*groups, "v", 5), "nan");
  EXPECT_EQ(scalar_text(*groups, "count()", 5), "2");
  EXPECT_EQ(scalar_text(*groups, "v", 1), "0");
}

// If q falls on a value, the quantile is that value, as numpy.quantile computes for finite values.
// Between two values it is a * (1 - t) + b * t for 0 < t < 1, so one infinity decides the result.
TEST_F(GroupByTest, QuantilesOfInfinities) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double inf = std::numeric_limits<double>::infinity();
  struct {
    std::vector<double> values;
    double q;
    const char* expected;
  } cases[] = {
      {{1, 2, inf}, 0.5, "2"},      {{1, 2, inf}, 0.75, "inf"}, {{1, 2, inf}, 1, "inf"},
      {{-inf, 2, 3}, 0.25, "-inf"}, {{-inf, 2, 3}, 0, "-inf"},  {{-inf, 2, 3}, 0.75, "2.5"},
      {{-inf, inf}, 0.5, "nan"},    {{-inf, inf}, 1, "inf"},    {{inf, inf}, 0.5, "inf"},
      {{-inf, -inf}, 0.25, "-inf"}, {{1, nan, inf}, 0, "nan"},  {{inf}, 0.3, "inf"},
      {{1, 2, 3, 4}, 0.5, "2.5"},   {{3, 1}, 0.25, "1.5"},      {{-0.0, 0.0}, 1, "0"},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(testing::PrintToString(each.values) + " at " + std::to_string(each.q));
    arrow::DoubleBuilder builder;
    check(builder.AppendValues(each.values), "v");
    Dataset rows = from_arrow(arrow::Table::Make(
        arrow::schema({arrow::field("v", arrow::float64())}), {check(builder.Finish(), "v")}));
    auto result = rows.with_column("g", lit(1)).groupby("g").quantile("v", each.q).to_table();
    EXPECT_EQ(check(result->column(1)->GetScalar(0), "q")->ToString(), each.expected);
  }
}

TEST_F(GroupByTest, FloatsAreAddedInTheOrderOfRows) {
  Dataset rows = from_arrow(table_of_ids(300'000, 70'000))
                     .with_column("g", col("id") % 7)
                     .with_column("v", col("id") * 0.1 - 777.7);
  auto first =
      rows.groupby("g").aggregate({agg::sum("v"), agg::mean("v"), agg::std("v")}).to_table();
  for (int i = 0; i < 3; ++i) {
    auto again =
        rows.groupby("g").aggregate({agg::sum("v"), agg::mean("v"), agg::std("v")}).to_table();
    EXPECT_TRUE(again->Equals(*first)) << "bits differ";
  }
}

BatchPtr largest(const BatchPtr& batch) { return batch->Slice(batch->num_rows() - 1); }
BatchPtr at_most(const BatchPtr& batch, const Json& n) { return batch->Slice(0, n.get<int64_t>()); }
const auto kAtMost = named("group_by_test.at_most", at_most);

TEST_F(GroupByTest, MapGroupsSeesEachGroupOnceInTheOrderOfItsRows) {
  Dataset last = files_.left().groupby("i").map_groups(largest);
  auto table = last.to_table();
  ASSERT_EQ(table->num_rows(), 10);
  auto latest = files_.left().groupby("i").max("id").to_table();
  EXPECT_EQ(json_ints(*table, "id"), json_ints(*latest, "max(id)"));
  Dataset two = files_.left().groupby({"b", "s"}).map_groups(kAtMost, Json(2));
  Dataset again = Dataset::from_json(Json::parse(two.to_json().dump()));
  EXPECT_EQ(ints(*again.to_table(), "id"), ints(*two.to_table(), "id"));
  EXPECT_EQ(two.count(),
            files_.left().groupby({"b", "s"}).count().filter(col("count()") > 1).count() +
                files_.left().groupby({"b", "s"}).count().count());
  // Groups over several batches of the sort.
  auto sizes = from_arrow(table_of_ids(100'000, 9'000))
                   .with_column("g", col("id") < 60'000)
                   .groupby("g")
                   .map_groups(largest)
                   .to_table();
  EXPECT_EQ(ints(*sizes, "id"), (std::vector<int64_t>{99'999, 59'999}));
  EXPECT_THAT(message_of(ErrorKind::kUserCode,
                         [&] {
                           files_.left()
                               .groupby("i")
                               .map_groups([](const BatchPtr&) -> BatchPtr {
                                 throw std::runtime_error("no such group");
                               })
                               .to_table();
                         }),
              AllOf(HasSubstr("of map_groups threw"), HasSubstr("no such group")));
}

TEST_F(GroupByTest, KeysOfEveryKind) {
  auto dictionary = array_from_json(arrow::dictionary(arrow::int8(), arrow::utf8()),
                                    Json::parse(R"(["b", "a", null, "b"])"));
  auto table =
      arrow::Table::Make(arrow::schema({arrow::field("d", dictionary->type())}), {dictionary});
  auto groups = from_arrow(table).groupby("d").count().to_table();
  EXPECT_TRUE(groups->schema()->field(0)->type()->Equals(*dictionary->type()));
  EXPECT_EQ(json_ints(*groups, "count()"), Json({1, 2, 1}));
  auto values = from_arrow(table).aggregate({agg::unique("d"), agg::count("d")});
  EXPECT_EQ(values->schema()->field(0)->type()->ToString(), "large_list<item: string>");
  EXPECT_EQ(check(values->column(1)->GetScalar(0), "count")->ToString(), "3");
}

TEST_F(GroupByTest, BadInput) {
  Dataset rows = files_.left();
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { rows.groupby("no"); }),
              HasSubstr("no column 'no'"));
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { rows.groupby("i").mean("no"); }),
              AllOf(HasSubstr("groupby(i).aggregate(mean(no))"), HasSubstr("no column 'no'")));
  EXPECT_THAT(message_of([&] { rows.groupby("i").mean("s"); }),
              HasSubstr("mean(s) of a column of type string is not possible"));
  EXPECT_THAT(message_of([&] {
                rows.groupby("i").aggregate({agg::sum("x"), agg::sum("x")});
              }),
              HasSubstr("sum(x)"));
  EXPECT_THAT(message_of([&] { rows.groupby(std::vector<std::string>{}); }),
              HasSubstr("at least one"));
  EXPECT_THAT(message_of([&] { agg::quantile("x", 1.5); }), HasSubstr("not 1.5"));
  EXPECT_THAT(message_of([&] { agg::std("x", 2); }), HasSubstr("ddof"));
  EXPECT_THAT(message_of([&] { rows.aggregate({}); }), HasSubstr("at least one"));
}

TEST_F(GroupByTest, JoinsAsDuckDbDoes) {
  const std::map<std::string, JoinType> types = {
      {"inner", JoinType::kInner},          {"left", JoinType::kLeft},
      {"right", JoinType::kRight},          {"outer", JoinType::kOuter},
      {"left semi", JoinType::kLeftSemi},   {"left anti", JoinType::kLeftAnti},
      {"right semi", JoinType::kRightSemi}, {"right anti", JoinType::kRightAnti}};
  for (const Json& one : wide_expected()["joins"]) {
    std::string type = one["type"];
    SCOPED_TRACE(type + one["on"].dump());
    Dataset joined = files_.left().join(files_.right(), one["on"].get<std::vector<std::string>>(),
                                        {.type = types.at(type), .right_suffix = "_r"});
    for (const Dataset& dataset :
         {joined, Dataset::from_json(Json::parse(joined.to_json().dump()))}) {
      auto table = dataset.to_table();
      Json rows = Json::array();
      if (type.find(' ') == std::string::npos) {
        Json left = json_ints(*table, "id"), right = json_ints(*table, "y");
        for (size_t i = 0; i < left.size(); ++i) rows.push_back({left[i], right[i]});
      } else {
        rows = json_ints(*table, type.starts_with("left") ? "id" : "y");
      }
      EXPECT_EQ(rows, one["rows"]);
    }
  }
  // The column of the key also has keys that only the right side has.
  auto outer = files_.left()
                   .join(files_.right(), "i", {.type = JoinType::kOuter, .right_suffix = "_r"})
                   .filter(col("id").is_null())
                   .select_columns({"i", "y"})
                   .to_table();
  ASSERT_GT(outer->num_rows(), 0);
  EXPECT_TRUE(outer->column(0)->null_count() < outer->num_rows());
  // Only columns that are used later are read from the right side.
  Dataset pruned =
      files_.left().join(files_.right(), "i", {.right_suffix = "_r"}).select_columns({"y"});
  EXPECT_EQ(pruned.to_table()->num_rows(),
            static_cast<int64_t>(wide_expected()["joins"][0]["rows"].size()));
  EXPECT_THAT(pruned.explain(),
              AllOf(HasSubstr("join(inner on i), of all rows at once\n    read_parquet"),
                    HasSubstr("reads 2 of 9 columns: i, s\n")));
  Dataset renamed =
      files_.left().join(files_.right(), "id", {.right_on = {"y"}, .left_suffix = "_l"});
  EXPECT_EQ(renamed.columns(),
            (std::vector<std::string>{"b", "f", "i_l", "id", "n", "s_l", "t", "u", "x", "i", "s"}));
}

// Some rows stay outside DuckDB; more rows than may stay outside pass through it.
TEST_F(GroupByTest, JoinsAreTheSameWhateverFitsIntoMemory) {
  auto some = wide_table(wide_expected()["columns"]);
  std::vector<std::shared_ptr<arrow::Table>> tables(100, some);
  auto left = check(arrow::ConcatenateTables(tables), "rows");
  arrow::LargeStringBuilder builder;
  const std::string part((17 << 20) / static_cast<size_t>(left->num_rows()) + 1, 'x');
  for (int64_t i = 0; i < left->num_rows(); ++i) check(builder.Append(part), "filler");
  auto filler = std::make_shared<arrow::ChunkedArray>(check(builder.Finish(), "filler"));
  auto field = arrow::field("filler", arrow::large_utf8());
  auto more = check(left->AddColumn(left->num_columns(), field, filler), "filler");
  auto equal = arrow::EqualOptions::Defaults().nans_equal(true);
  Dataset right = files_.right().with_column("y", col("y") % 300);
  for (auto type : {JoinType::kInner, JoinType::kLeft, JoinType::kRight, JoinType::kOuter,
                    JoinType::kLeftSemi, JoinType::kLeftAnti}) {
    for (const std::vector<std::string>& on : {std::vector<std::string>{"id"}, {"id", "s"}}) {
      SCOPED_TRACE(str(static_cast<int>(type), " ", join(on)));
      JoinOptions options{.type = type,
                          .right_on = on,
                          .left_suffix = "_l",
                          .right_suffix = "_r",
                          .memory_bytes = 64 << 20};
      options.right_on[0] = "y";
      auto kept = from_arrow(left).join(right, on, options).to_table();
      auto moved = from_arrow(more).join(right, on, options).to_table();
      EXPECT_GT(kept->num_rows(), 0);
      for (const auto& name : kept->schema()->field_names()) {
        EXPECT_TRUE(kept->GetColumnByName(name)->Equals(*moved->GetColumnByName(name), equal))
            << name;
      }
    }
  }
  // A side without rows has no batch to take values from.
  Dataset none = files_.right().filter(col("y") > 1'000'000);
  auto alone = from_arrow(left).join(none, "i", {.type = JoinType::kLeft, .right_suffix = "_r"});
  auto table = alone.to_table();
  EXPECT_EQ(json_ints(*table, "id"), json_ints(*left, "id"));
  EXPECT_EQ(table->GetColumnByName("y")->null_count(), left->num_rows());
  EXPECT_EQ(from_arrow(left).join(none, "i", {.right_suffix = "_r"}).count(), 0);
}

TEST_F(GroupByTest, ALeftSideWithoutRows) {
  Dataset none = files_.left().filter(col("id") < 0), right = files_.right();
  for (auto type : {JoinType::kRight, JoinType::kOuter}) {
    SCOPED_TRACE(static_cast<int>(type));
    Dataset joined = none.join(right, "i", {.type = type, .right_suffix = "_r"});
    auto table = joined.to_table();
    EXPECT_EQ(json_ints(*table, "y"), json_ints(*right.to_table(), "y"));
    EXPECT_EQ(table->GetColumnByName("id")->null_count(), table->num_rows());
    EXPECT_TRUE(table->schema()->Equals(*joined.schema()));
  }
  for (auto type : {JoinType::kInner, JoinType::kLeft}) {
    Dataset joined = none.join(right, "i", {.type = type, .right_suffix = "_r"});
    EXPECT_EQ(joined.to_table()->num_rows(), 0);
    EXPECT_TRUE(joined.to_table()->schema()->Equals(*joined.schema()));
  }
}

TEST_F(GroupByTest, GroupsOfNoRows) {
  Dataset none = files_.left().filter(col("id") < 0);
  Dataset mapped = none.groupby("i").map_groups(largest);
  EXPECT_EQ(mapped.count(), 0);
  EXPECT_EQ(mapped.filter(col("id") > 3).count(), 0);
  // As after any function: without a row the columns are unknown.
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { mapped.to_table(); }),
              HasSubstr("has no rows"));
  auto counted = none.groupby("i").aggregate({agg::count(), agg::quantile("id")}).to_table();
  EXPECT_EQ(counted->num_rows(), 0);
  EXPECT_EQ(counted->num_columns(), 3);
}

TEST_F(GroupByTest, BadJoins) {
  Dataset left = files_.left(), right = files_.right();
  EXPECT_THAT(message_of([&] { left.join(right, "i"); }),
              AllOf(HasSubstr("both sides have a column 's'"), HasSubstr("right_suffix")));
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { left.join(right, "id"); }),
              AllOf(HasSubstr("of the right side"), HasSubstr("no column 'id'")));
  EXPECT_THAT(message_of([&] { left.join(right, "id", {.right_on = {"i"}}); }),
              AllOf(HasSubstr("int64 on the left and int32 on the right"), HasSubstr("cast")));
  EXPECT_THAT(message_of([&] { left.join(right, std::vector<std::string>{}); }),
              HasSubstr("at least one"));
  EXPECT_THAT(message_of([&] {
                left.join(right, "i", {.right_on = {"i", "s"}});
              }),
              HasSubstr("1 and 2"));
}

BatchPtr keep_group(const BatchPtr& group) { return group; }
BatchPtr same_name_twice(const BatchPtr& group) {
  auto column = group->column(0);
  return arrow::RecordBatch::Make(
      arrow::schema({arrow::field("a", column->type()), arrow::field("a", column->type())}),
      group->num_rows(), {column, column});
}
BatchPtr fail_for_70(const BatchPtr& group) {
  if (ints(*group, "k")[0] >= 70) throw std::runtime_error(str("group ", ints(*group, "k")[0]));
  return group;
}

TEST(MapGroupsTest, GroupsComeInOrderHoweverManyThreadsCall) {
  // Groups of one row and of many, more than there are tasks at a time.
  Dataset rows =
      range(100'000)
          .with_column("k", col("id") % 100)
          .with_column("k", if_else(col("id") < 5000, col("k") * 1000 + col("id"), col("k")));
  auto sorted = rows.sort("k").to_table();
  auto grouped = rows.groupby("k").map_groups(keep_group).to_table();
  EXPECT_EQ(ints(*grouped, "id"), ints(*sorted, "id"));
  // The error is that of the first group, whichever thread is faster.
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(message_of(ErrorKind::kUserCode,
                           [&] { rows.groupby("k").map_groups(fail_for_70).to_table(); }),
                HasSubstr("threw std::runtime_error: group 70"));
  }
  EXPECT_THAT(message_of(ErrorKind::kUserCode,
                         [&] { rows.groupby("k").map_groups(same_name_twice).to_table(); }),
              AllOf(HasSubstr("same_name_twice"), HasSubstr("of map_groups"), HasSubstr("twice")));
}

TEST(SplitAfterWideTest, BothPartsAreOfTheSameRows) {
  ParquetFolder folder;
  Dataset rows =
      read_parquet(folder.write_rows("a.parquet", 0, 500, 70)).random_shuffle({.seed = 3});
  auto all = ints(*rows.to_table(), "id");
  auto [first, last] = rows.train_test_split(0.2);
  auto in_order = ints(*first.to_table(), "id");
  auto rest = ints(*last.to_table(), "id");
  EXPECT_EQ(rest.size(), 100u);
  in_order.insert(in_order.end(), rest.begin(), rest.end());
  EXPECT_EQ(in_order, all);
  auto [train, test] = rows.train_test_split(int64_t{123}, {.shuffle = true, .seed = 9});
  auto drawn = ints(*test.to_table(), "id");
  EXPECT_EQ(drawn.size(), 123u);
  auto both = ints(*train.to_table(), "id");
  both.insert(both.end(), drawn.begin(), drawn.end());
  EXPECT_THAT(both, testing::UnorderedElementsAreArray(all));
  // A program that loads the plan makes the rows anew, and splits them alike.
  auto loaded = Dataset::from_json(Json::parse(test.to_json().dump()));
  EXPECT_EQ(ints(*loaded.to_table(), "id"), drawn);
  EXPECT_EQ(test.filter(col("id") < 0).count(), 0);
  EXPECT_EQ(test.count(), 123);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { rows.train_test_split(int64_t{500}); }),
              HasSubstr("leave one of the parts empty"));
  message_of(ErrorKind::kInvalidArgument, [&] { rows.window_shuffle().train_test_split(0.5); });
  Json json = test.to_json();
  json["operations"].erase(0);
  json["operations"].erase(0);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(json); }),
              HasSubstr("must follow an operation on all rows"));
}

TEST(RowStoreTest, ABlockHasALimit) {
  auto batch = check(table_of_ids(100'000, 100'000)->CombineChunksToBatch(), "ids");
  RowStore store(batch->schema(), "the rows of a test");
  store.cut_only_where_told(1'000'000);
  store.add(batch);
  store.end_fragment();
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] {
                           store.add(batch);
                           store.add(batch);
                         }),
              AllOf(HasSubstr("the rows of a test"), HasSubstr("more than 1000000 bytes"),
                    HasSubstr("make more blocks")));
}

}  // namespace
}  // namespace manta::data
