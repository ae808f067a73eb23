#include "manta/data/row.h"

#include <arrow/api.h>
#include <gmock/gmock.h>

#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/sources.h"
#include "manta/data/wide_fixture_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Row doubled(Row row) {
  row.set("twice", row.get<int64_t>("id") * 2);
  return row;
}
Row added(const Row& row, const Json& args) {
  return Row{{"sum", row.get<int64_t>("id") + args.at("more").get<int64_t>()}};
}
std::vector<Row> as_often_as_its_id(const Row& row) {
  return std::vector<Row>(static_cast<size_t>(row.get<int64_t>("id")), row);
}
bool is_even(const Row& row) { return row.get<int64_t>("id") % 2 == 0; }
bool is_below(const Row& row, const int64_t& end) { return row.get<int64_t>("id") < end; }
const auto named_doubled = named("test_doubled", doubled);
const auto named_added = named("test_added", added);
const auto named_even = named("test_even", is_even);
const auto named_often = named("test_often", as_often_as_its_id);

std::shared_ptr<arrow::Table> mapped(const std::shared_ptr<arrow::DataType>& type,
                                     const Json& values, Row (*function)(const Row&)) {
  auto column = array_from_json(type, values);
  return from_arrow(arrow::Table::Make(arrow::schema({arrow::field("x", type)}), {column}))
      .map(function)
      .to_table();
}

TEST(RowTest, ValuesOfEveryKindAreRead) {
  auto batch = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("i", arrow::int8()), arrow::field("u", arrow::uint64()),
                     arrow::field("f", arrow::float32()), arrow::field("b", arrow::boolean()),
                     arrow::field("t", arrow::large_utf8()),
                     arrow::field("l", arrow::list(arrow::int16())),
                     arrow::field("d", arrow::date32()), arrow::field("c", arrow::decimal128(5, 2)),
                     arrow::field("n", arrow::int32())}),
      1,
      {array_from_json(arrow::int8(), {-5}), array_from_json(arrow::uint64(), {UINT64_MAX}),
       array_from_json(arrow::float32(), {0.5}), array_from_json(arrow::boolean(), {true}),
       array_from_json(arrow::large_utf8(), {"text"}),
       array_from_json(arrow::list(arrow::int16()), {{1, 2, nullptr}}),
       array_from_json(arrow::date32(), {18262}),
       array_from_json(arrow::decimal128(5, 2), {"3.00"}),
       array_from_json(arrow::int32(), {nullptr})});
  Row row(batch, 0);
  EXPECT_EQ(row.get<int>("i"), -5);
  EXPECT_EQ(row.get<double>("i"), -5.0);
  EXPECT_EQ(row.get<uint64_t>("u"), UINT64_MAX);
  EXPECT_EQ(row.get<float>("f"), 0.5f);
  EXPECT_TRUE(row.get<bool>("b"));
  EXPECT_EQ(row.get<std::string>("t"), "text");
  EXPECT_THAT(row.get<std::vector<std::optional<int>>>("l"), ElementsAre(1, 2, std::nullopt));
  EXPECT_EQ(row.get<int>("d"), 18262);
  EXPECT_EQ(row.get<int>("c"), 3);
  EXPECT_EQ(row.get<double>("c"), 3.0);
  EXPECT_EQ(row.get<std::optional<int>>("n"), std::nullopt);
  EXPECT_EQ(row.get<std::shared_ptr<arrow::Scalar>>("d")->ToString(), "2020-01-01");
  EXPECT_TRUE(row.is_null("n"));
  EXPECT_THAT(row.to_string(),
              AllOf(HasSubstr("i: -5"), HasSubstr("t: \"text\""), HasSubstr("n: null")));

  auto refused = [&](auto call) { return message_of(ErrorKind::kInvalidArgument, call); };
  EXPECT_THAT(refused([&] { row.get<int>("n"); }),
              HasSubstr("'n' is null in this row; ask for a std::optional"));
  EXPECT_THAT(refused([&] { row.get<unsigned>("i"); }), HasSubstr("not an unsigned integer"));
  EXPECT_THAT(refused([&] { row.get<int64_t>("u"); }), HasSubstr("not an int64"));
  EXPECT_THAT(refused([&] { row.get<double>("u"); }), HasSubstr("not a double"));
  EXPECT_THAT(refused([&] { row.get<int>("f"); }),
              HasSubstr("0.5, of type double, which is not an integer"));
  EXPECT_THAT(refused([&] { row.get<bool>("i"); }), HasSubstr("not a boolean"));
  EXPECT_THAT(refused([&] { row.get<std::string>("i"); }), HasSubstr("not a text"));
  EXPECT_THAT(refused([&] { row.get<std::vector<int>>("i"); }), HasSubstr("not a list"));
  EXPECT_THAT(refused([&] { row.set("i", 300).get<int8_t>("i"); }), HasSubstr("so few bits"));
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { row.get<int>("ii"); }),
              HasSubstr("no column 'ii'; there are 'i', 'u'"));
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { row.drop("ii"); }), HasSubstr("'ii'"));
}

TEST(RowTest, MapFlatMapAndFilter) {
  ParquetFolder folder;
  auto rows = read_parquet(folder.write_rows("a.parquet", 0, 50, 20));
  auto twice = rows.map(doubled).to_table();
  EXPECT_EQ(twice->schema()->field_names(),
            (std::vector<std::string>{"id", "half", "text", "twice"}));
  EXPECT_EQ(ints(*twice, "twice")[49], 98);
  EXPECT_TRUE(twice->GetColumnByName("half")->Equals(*rows.to_table()->GetColumnByName("half")));
  EXPECT_THAT(ints(*rows.map(added, {{"more", 100}}).limit(2).to_table(), "sum"),
              ElementsAre(100, 101));
  EXPECT_THAT(ints(*range(4).flat_map(as_often_as_its_id).to_table(), "id"),
              ElementsAre(1, 2, 2, 3, 3, 3));
  EXPECT_THAT(
      ints(*rows.filter(is_even).filter(is_below, 5).select_columns({"id"}).to_table(), "id"),
      ElementsAre(0, 2, 4));
  EXPECT_EQ(rows.filter(is_even).count(), 25);
  EXPECT_THAT(rows.filter(is_even).filter(col("id") >= 40).explain(),
              HasSubstr("skips 2 of 3 fragments: 0-1"));
  EXPECT_EQ(rows.filter([](const Row& row) { return row.is_null("half"); }).count(), 7);
  EXPECT_EQ(range(3).flat_map([](const Row&) { return std::vector<Row>(); }).count(), 0);
}

TEST(RowTest, NamedFunctionsOfRowsAreStored) {
  Dataset dataset = range(10)
                        .filter(named_even)
                        .map(named_doubled)
                        .flat_map(named_often)
                        .map(named_added, {{"more", 1}});
  auto copy = Dataset::from_json(Json::parse(dataset.to_json().dump()));
  EXPECT_TRUE(copy.to_table()->Equals(*dataset.to_table()));
  EXPECT_EQ(copy.explain(), dataset.explain());
  EXPECT_THAT(dataset.explain(),
              AllOf(HasSubstr("filter(test_even)"), HasSubstr("flat_map(test_often)"),
                    HasSubstr("map(test_added, {\"more\":1})")));
  EXPECT_TRUE(Dataset(WirePlan(*range(9).filter(is_below, 3).plan()).plan()).count() == 3);
  Json json = dataset.to_json();
  json["operations"][1]["function"] = 0;
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(json); }),
              HasSubstr("operations[1].function is 0; expected the number of a function of a row"));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { range(3).map(doubled).to_json(); }),
              HasSubstr("manta::named"));
}

TEST(RowTest, ColumnsKeepTheirTypesIfTheValuesFit) {
  auto type_of_x = [](const auto& table) {
    return table->GetColumnByName("x")->type()->ToString();
  };
  auto one_of_two = mapped(arrow::int32(), {1, -1, nullptr}, [](const Row& row) {
    Row changed = row;
    if (row.get<std::optional<int>>("x").value_or(0) < 0) changed.set("x", 0);
    return changed;
  });
  EXPECT_EQ(type_of_x(one_of_two), "int32");
  EXPECT_EQ(scalar_text(*one_of_two, "x", 1), "0");
  EXPECT_EQ(scalar_text(*one_of_two, "x", 2), "null");
  auto of_all = mapped(arrow::int32(), {1, 2, 3},
                       [](const Row& row) { return Row(row).set("x", row.get<int>("x") / 2.0); });
  EXPECT_EQ(type_of_x(of_all), "double");
  auto of_some = mapped(arrow::int32(), {1, 2, 3}, [](const Row& row) {
    return row.get<int>("x") == 2 ? Row(row).set("x", 0.5) : row;
  });
  EXPECT_EQ(type_of_x(of_some), "double");
  EXPECT_EQ(scalar_text(*of_some, "x", 0), "1");
  auto shortened = mapped(arrow::large_utf8(), {"ab", nullptr}, [](const Row& row) {
    return row.is_null("x") ? row : Row(row).set("x", row.get<std::string>("x").substr(1));
  });
  EXPECT_EQ(type_of_x(shortened), "large_string");
  auto nulls = mapped(arrow::timestamp(arrow::TimeUnit::SECOND), {"2020-01-01", "2021-01-01"},
                      [](const Row& row) {
                        return Row(row)
                            .set("x", nullptr)
                            .set("y", std::optional<double>())
                            .set("z", std::vector<int>{1, 2});
                      });
  EXPECT_EQ(type_of_x(nulls), "timestamp[s]");
  EXPECT_EQ(nulls->GetColumnByName("y")->type()->ToString(), "double");
  EXPECT_EQ(nulls->GetColumnByName("z")->type()->ToString(), "list<item: int64>");
}

TEST(RowTest, WhatAFunctionDoesWrongIsNamed) {
  ParquetFolder folder;
  auto rows = read_parquet(folder.write_rows("a.parquet", 0, 50, 20));
  auto broken = [&](auto function) {
    return message_of(ErrorKind::kUserCode, [&] { rows.map(function).to_table(); });
  };
  EXPECT_THAT(
      broken([](const Row& row) {
        if (row.get<int64_t>("id") == 23) throw std::runtime_error("no good");
        return row;
      }),
      AllOf(HasSubstr("of map, on row group 1 of '"),
            HasSubstr("threw std::runtime_error: no good, at row 3 of the batch: {id: 23")));
  EXPECT_THAT(broken([](const Row& row) { return Row(row).set("half", row.get<double>("half")); }),
              HasSubstr("'half' is null in this row"));
  EXPECT_THAT(
      broken([](const Row& row) {
        return row.get<int64_t>("id") % 2 ? row : Row(row).set("more", 1);
      }),
      AllOf(HasSubstr("different columns: {id, half, text, more} first, then {id, half, text}")));
  EXPECT_THAT(broken([](const Row& row) {
                return row.get<int64_t>("id") % 2 ? Row{{"a", 1}} : Row{{"a", "text"}};
              }),
              HasSubstr("column 'a' has a value of type int64, and others have string"));
  EXPECT_THAT(broken([](const Row& row) {
                return row.get<int64_t>("id") < 20 ? Row{{"a", 1}} : Row{{"a", 0.5}};
              }),
              AllOf(HasSubstr("map("), HasSubstr("{a: int64} for row group 0 of '"),
                    HasSubstr("{a: double} for row group 1 of '")));
  EXPECT_THAT(message_of(ErrorKind::kUserCode,
                         [&] {
                           rows.cast({{"id", "int8"}})
                               .map([](const Row& row) { return Row(row).set("id", 1000); })
                               .to_table();
                         }),
              AllOf(HasSubstr("column 'id' is of type int8, and a value that was set does not fit"),
                    HasSubstr("1000")));
}

TEST(RowTest, RowsAreIterated) {
  ParquetFolder folder;
  auto rows = read_parquet(folder.write_rows("a.parquet", 0, 50, 20));
  std::vector<Row> all;
  for (const Row& row : rows.iter_rows()) all.push_back(row);
  ASSERT_EQ(all.size(), 50u);
  EXPECT_EQ(all[49].get<double>("half"), 24.5);
  EXPECT_EQ(all[49].columns(), rows.columns());
  for (const Row& row : range(0).iter_rows()) ADD_FAILURE() << row.to_string();
  EXPECT_EQ(rows.take_batch(30)->num_rows(), 30);
  EXPECT_EQ(rows.take_batch(0)->num_rows(), 0);
  EXPECT_EQ(rows.take_batch(99)->num_rows(), 50);
  message_of(ErrorKind::kInvalidArgument, [&] { rows.take_batch(-1); });
  EXPECT_TRUE(rows.to_arrow()->Equals(*rows.to_table()));
}

}  // namespace
}  // namespace manta::data
