// Row groups are left out by their statistics, but never one with a row that the filter keeps.

#include <gmock/gmock.h>
#include <parquet/arrow/writer.h>
#include <parquet/schema.h>
#include <parquet/statistics.h>

#include "manta/base/error_internal.h"
#include "manta/data/compare_cases_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/gather_internal.h"
#include "manta/data/generator_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/pipeline_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kAllRows = 60;
constexpr int64_t kGroupRows = 5;

std::vector<std::optional<std::partial_ordering>> orders_with(const KnownColumn& column,
                                                              const Known& value) {
  std::vector<std::optional<std::partial_ordering>> orders;
  for (const auto& each : column.values) {
    orders.emplace_back();
    if (each) orders.back() = order(*each, value);
  }
  return orders;
}

/// All columns that Parquet has, in one file of small row groups, each in a different order.
class StatisticsTest : public testing::Test {
 protected:
  void SetUp() override {
    arrow::FieldVector fields = {arrow::field("id", arrow::int64())};
    arrow::ArrayVector arrays;
    arrow::Int64Builder ids;
    for (int64_t i = 0; i < kAllRows; ++i) check(ids.Append(i), "id");
    arrays.push_back(check(ids.Finish(), "ids"));
    Generator random({3});
    for (auto& column : known_columns()) {
      if (!column.in_parquet) continue;
      arrow::Int64Builder rows;
      KnownColumn stored = column;
      stored.name = str("c", columns_.size());
      stored.values.clear();
      for (int64_t i = 0; i < kAllRows; ++i) {
        // Two of three row groups have one value only.
        auto value = i % kGroupRows == 0 || (i / kGroupRows) % 3 == 0
                         ? random.below(column.values.size())
                         : last_;
        last_ = value;
        check(rows.Append(static_cast<int64_t>(value)), "a row");
        stored.values.push_back(column.values[value]);
      }
      arrays.push_back(take_rows(*column.column, *check(rows.Finish(), "rows")));
      fields.push_back(arrow::field(stored.name, column.column->type()));
      columns_.push_back(stored);
    }
    table_ = arrow::Table::Make(arrow::schema(fields), arrays);
  }

  std::string write(const std::string& name, bool with_statistics) {
    auto properties = parquet::WriterProperties::Builder();
    if (!with_statistics) properties.disable_statistics();
    auto out = check(arrow::io::FileOutputStream::Open(folder_.file(name)), "a file");
    auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    check(parquet::arrow::WriteTable(*table_, arrow::default_memory_pool(), out, kGroupRows,
                                     properties.build(), arrow_properties),
          "writing");
    check(out->Close(), "writing");
    return folder_.file(name);
  }

  ParquetFolder folder_;
  std::vector<KnownColumn> columns_;
  std::shared_ptr<arrow::Table> table_;
  uint64_t last_ = 0;
};

TEST_F(StatisticsTest, NoRowGroupWithAMatchingRowIsLeftOut) {
  auto dataset = read_parquet(write("a.parquet", true));
  auto& source = *dataset.plan()->source;
  for (const auto& column : columns_) {
    const std::string type = column.column->type()->ToString();
    int left_out = 0;
    for (const auto& [constant, value] : constants_for(column)) {
      auto orders = orders_with(column, value);
      for (ExpressionOp op : kComparisons) {
        if (op == ExpressionOp::kNotEqual) continue;  // not a bound
        for (bool column_first : {true, false}) {
          auto condition = column_first ? make_comparison(op, col(column.name), constant)
                                        : make_comparison(op, constant, col(column.name));
          for (size_t group = 0; group < source.fragments().size(); ++group) {
            if (!source.rules_out(group, {{column.name, condition}})) continue;
            ++left_out;
            for (size_t i = group * kGroupRows; i < (group + 1) * kGroupRows; ++i) {
              if (!orders[i]) continue;
              ASSERT_FALSE(fulfils(column_first ? *orders[i] : 0 <=> *orders[i], op))
                  << condition.to_string() << " with " << type << " in row " << i;
            }
          }
        }
      }
    }
    // Parquet stores durations as plain integers, which are not compared with durations, and Arrow
    // does not read statistics of half floats. The statistics of all other types must rule out
    // something.
    if (column.family != "duration" && type != "halffloat") {
      EXPECT_GT(left_out, 0) << type;
    }
  }
}

TEST_F(StatisticsTest, ListsLeaveOutWhatNoneOfTheirConstantsIsIn) {
  auto dataset = read_parquet(write("a.parquet", true));
  auto& source = *dataset.plan()->source;
  for (const auto& column : columns_) {
    int left_out = 0;
    auto constants = constants_for(column);
    for (size_t first = 0; first + 1 < constants.size(); ++first) {
      std::vector<std::pair<Expression, Known>> two = {constants[first], constants[first + 1]};
      auto condition = col(column.name).is_in({two[0].first, two[1].first});
      for (size_t group = 0; group < source.fragments().size(); ++group) {
        if (!source.rules_out(group, {{column.name, condition}})) continue;
        ++left_out;
        for (int64_t i = 0; i < kGroupRows; ++i) {
          const auto& each =
              column.values[group * static_cast<size_t>(kGroupRows) + static_cast<size_t>(i)];
          for (const auto& [constant, value] : two) {
            ASSERT_FALSE(each && fulfils(order(*each, value), ExpressionOp::kEqual))
                << condition.to_string() << " in row group " << group << ", row " << i;
          }
        }
      }
    }
    if (column.family == "number" && column.column->type_id() != arrow::Type::HALF_FLOAT) {
      EXPECT_GT(left_out, 0) << column.column->type()->ToString();
    }
  }
  EXPECT_THAT(dataset.filter(col("id").is_in({-5, -7})).explain(),
              testing::Not(testing::HasSubstr("skips 0 of")));
}

// The whole way: rows of real files, with statistics, without, and where they cannot be used
// because the column is a copy; for every column, constant and operator.
class FilterTest : public StatisticsTest, public testing::WithParamInterface<ExpressionOp> {};

TEST_P(FilterTest, KeepsTheSameRowsWithAndWithoutStatistics) {
  auto with = read_parquet(write("with.parquet", true));
  auto without = read_parquet(write("without.parquet", false));
  EXPECT_THAT(without.filter(col("id") < 0).explain(), testing::HasSubstr("skips 0 of"));
  EXPECT_THAT(with.filter(col("id") < 0).explain(), testing::Not(testing::HasSubstr("skips 0 of")));
  size_t number = 0;
  for (const auto& column : columns_) {
    for (const auto& [constant, value] : constants_for(column)) {
      bool column_first = ++number % 3 == 0;
      auto condition_of = [&, &constant = constant](const Expression& x) {
        return column_first ? make_comparison(GetParam(), x, constant)
                            : make_comparison(GetParam(), constant, x);
      };
      std::vector<int64_t> right;
      auto orders = orders_with(column, value);
      for (size_t i = 0; i < orders.size(); ++i) {
        bool kept = orders[i] && fulfils(column_first ? *orders[i] : 0 <=> *orders[i], GetParam());
        if (kept) right.push_back(static_cast<int64_t>(i));
      }
      auto condition = condition_of(col(column.name));
      std::vector<Dataset> filtered = {with.filter(condition)};
      // Comparisons where nothing is left out are tested, for all types, by compare_test.cc.
      if (number % 4 == 0) filtered.push_back(without.filter(condition));
      if (number % 8 == 0) {
        filtered.push_back(
            with.with_column("copy", col(column.name)).filter(condition_of(col("copy"))));
      }
      for (const auto& dataset : filtered) {
        ASSERT_EQ(read_ids(dataset.select_columns({"id"}).plan()), right)
            << condition.to_string() << " with " << column.column->type()->ToString();
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<ExpressionOp>& each) {
  static constexpr const char* kNames[] = {"Equal",     "NotEqual", "Less",
                                           "LessEqual", "Greater",  "GreaterEqual"};
  return kNames[each.index];
}
INSTANTIATE_TEST_SUITE_P(With, FilterTest, testing::ValuesIn(kComparisons), name_of);

// Statistics that other writers make, but Arrow's writer does not.
struct StatisticsCase {
  const char* what;
  parquet::schema::NodePtr node;
  std::string smallest, largest;
  Expression condition;
  bool excludes;
};

template <class T>
std::string encoded(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

TEST(OddStatisticsTest, AreUsedOnlyIfTheyTell) {
  using parquet::LogicalType;
  using parquet::Repetition;
  using parquet::Type;
  auto node = [](Type::type type, std::shared_ptr<const LogicalType> logical = LogicalType::None(),
                 int length = -1) {
    return parquet::schema::PrimitiveNode::Make("x", Repetition::OPTIONAL, std::move(logical), type,
                                                length);
  };
  auto x = col("x");
  auto text = node(Type::BYTE_ARRAY, LogicalType::String());
  auto uint64 = node(Type::INT64, LogicalType::Int(64, false));
  auto decimal = node(Type::FIXED_LEN_BYTE_ARRAY, LogicalType::Decimal(5, 2), 3);
  const std::string no_number = encoded(std::nan(""));
  const StatisticsCase cases[] = {
      {"ordinary", node(Type::DOUBLE), encoded(1.0), encoded(2.0), x > 2, true},
      {"ordinary, at the end", node(Type::DOUBLE), encoded(1.0), encoded(2.0), x >= 2, false},
      {"NaN as the largest", node(Type::DOUBLE), encoded(1.0), no_number, x > 2, false},
      {"NaN as the smallest", node(Type::DOUBLE), no_number, encoded(2.0), x > 3, false},
      {"NaN as both", node(Type::DOUBLE), no_number, no_number, x < 3, false},
      {"a negative zero as the largest", node(Type::DOUBLE), encoded(-1.0), encoded(-0.0), x >= 0.0,
       false},
      {"a positive zero as the smallest", node(Type::DOUBLE), encoded(0.0), encoded(1.0), x == -0.0,
       false},
      {"unsigned", uint64, encoded(uint64_t{1}), encoded(~uint64_t{0}), x > 5, false},
      {"unsigned, found as signed", uint64, encoded(~uint64_t{0}), encoded(uint64_t{1}), x > 5,
       false},
      {"unsigned, with a negative constant", uint64, encoded(uint64_t{1}), encoded(~uint64_t{0}),
       x == -1, true},
      {"a text cut short", text, "ab", "ad", x == "abcdef", false},
      {"a text cut short, outside", text, "ab", "ad", x == "b", true},
      {"a text cut in the middle of a letter", text, "a", "\xc3", x > "b", false},
      {"a decimal of three bytes", decimal, std::string("\xff\xff\xff", 3),
       std::string("\x00\x00\x64", 3), x > 1, true},
      {"a decimal of three bytes, at the end", decimal, std::string("\xff\xff\xff", 3),
       std::string("\x00\x00\x64", 3), x < 0, false},
      {"of another type than the constant", text, "a", "b", x < 5, false},
  };
  for (const auto& test : cases) {
    parquet::ColumnDescriptor descriptor(test.node, 1, 0);
    auto statistics =
        parquet::Statistics::Make(&descriptor, test.smallest, test.largest, /*num_values=*/10,
                                  /*null_count=*/0, /*distinct_count=*/0, /*has_min_max=*/true,
                                  /*has_null_count=*/true, /*has_distinct_count=*/false);
    EXPECT_EQ(excludes({"x", test.condition}, *statistics), test.excludes) << test.what;
    auto none = parquet::Statistics::Make(&descriptor, "", "", 10, 0, 0, false, true, false);
    EXPECT_FALSE(excludes({"x", test.condition}, *none)) << test.what;
  }
}

}  // namespace
}  // namespace manta::data
