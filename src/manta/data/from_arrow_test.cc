#include <arrow/api.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "manta/base/error_internal.h"
#include "manta/core/value.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/sources.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(FromArrowTest, RowsInMemoryAreADataSet) {
  auto table = table_of_ids(100'000, 7001);
  Dataset dataset = from_arrow(table);
  EXPECT_TRUE(dataset.to_table()->Equals(*table));
  EXPECT_EQ(dataset.count(), 100'000);
  EXPECT_EQ(dataset.filter(col("id") >= 99'990).count(), 10);
  auto [train, test] = dataset.train_test_split(0.1);
  EXPECT_EQ(ints(*test.to_table(), "id")[0], 90'000);
  auto shuffled = read_ids(dataset.window_shuffle({.rows = 10, .seed = 1}).plan());
  EXPECT_NE(shuffled[0], 0);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, ints(*table, "id"));
  EXPECT_THAT(dataset.explain(), HasSubstr("from_arrow: 100000 rows in memory"));
  EXPECT_EQ(from_arrow(table->Slice(0, 0)).count(), 0);
}

TEST(FromArrowTest, SmallBatchesAreReadTogether) {
  auto table = table_of_ids(10'000, 3);
  Dataset dataset = from_arrow(table);
  EXPECT_EQ(dataset.plan()->source->fragments().size(), 1u);
  EXPECT_EQ(ints(*dataset.to_table(), "id"), ints(*table, "id"));
  EXPECT_EQ(dataset.count(), 10'000);
  EXPECT_EQ(dataset.filter(col("id") < 10).count(), 10);
  EXPECT_EQ(dataset.map_batches([](const BatchPtr& batch) { return batch; }).count(), 10'000);
  auto large = table_of_ids(100'000, 50'000);
  Dataset both = from_arrow(
      check(arrow::ConcatenateTables({large, table, large, table_of_ids(5, 5)}), "tables"));
  EXPECT_EQ(both.plan()->source->fragments().size(), 4u + 1 + 4 + 1);
  EXPECT_EQ(both.plan()->source->describe(4), "rows from 100000 on of a table in memory");
  EXPECT_EQ(both.count(), 210'005);
}

TEST(FromArrowTest, BatchesMustAgree) {
  auto batch = [](const std::string& name, const Json& values) {
    return arrow::RecordBatch::Make(arrow::schema({arrow::field(name, arrow::int64())}),
                                    static_cast<int64_t>(values.size()),
                                    {array_from_json(arrow::int64(), values)});
  };
  EXPECT_THAT(ints(*from_arrow({batch("a", {1, 2}), batch("a", Json::array()), batch("a", {3, 4})})
                        .to_table(),
                   "a"),
              ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(message_of([&] {
                from_arrow({batch("a", {1, 2}), batch("b", {1, 2})});
              }),
              AllOf(HasSubstr("batch 1"), HasSubstr("b: int64")));
  EXPECT_THAT(message_of([] { from_arrow(Batches()); }), HasSubstr("at least one batch"));
  EXPECT_THAT(message_of([] { from_arrow(std::shared_ptr<arrow::Table>()); }), HasSubstr("null"));
  auto twice =
      check(batch("a", {1, 2})->AddColumn(1, "a", array_from_json(arrow::int64(), {1, 2})), "");
  EXPECT_THAT(message_of([&] { from_arrow({twice}); }), HasSubstr("'a' is named twice"));
}

TEST(FromArrowTest, TravelsToOtherProcessesButIsNotStored) {
  Dataset dataset = from_arrow(table_of_ids(50'000, 50'000)).filter(col("id") < 40'000);
  std::string bytes;
  OutArchive out(bytes);
  WirePlan wire(*dataset.plan());
  out(wire);
  EXPECT_LT(bytes.size(), 10'000u) << "the rows go through shared memory";
  ASSERT_EQ(out.fds.size(), 1u);
  InArchive in(bytes);
  in.fds.emplace_back(::dup(out.fds[0].fd));
  WirePlan received;
  in(received);
  EXPECT_TRUE(Dataset(received.plan()).to_table()->Equals(*dataset.to_table()));
  Error error = error_of([&] { dataset.to_json(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("in memory"), HasSubstr("write_parquet")));
  EXPECT_THAT(message_of([] {
                Dataset::from_json({{"version", 1},
                                    {"source", {{"name", "arrow"}}},
                                    {"columns", Json::array()},
                                    {"operations", Json::array()}});
              }),
              HasSubstr("source.name"));
}

// A split knows the rows of each fragment, so the other process must cut the same ones.
TEST(FromArrowTest, ASplitTravelsWhateverTheChunksAre) {
  auto ids = table_of_ids(100'000, 40'000);
  auto others = table_of_ids(100'000, 333);
  auto table =
      check(ids->AddColumn(1, arrow::field("other", arrow::int64()), others->column(0)), "a table")
          ->Slice(17);
  auto [train, test] = from_arrow(table).train_test_split(0.25, {.shuffle = true, .seed = 1});
  for (const Dataset& part : {train, test}) {
    std::string bytes;
    OutArchive out(bytes);
    WirePlan wire(*part.plan());
    out(wire);
    InArchive in(bytes);
    for (const auto& fd : out.fds) in.fds.emplace_back(::dup(fd.fd));
    WirePlan received;
    in(received);
    EXPECT_TRUE(Dataset(received.plan()).to_table()->Equals(*part.to_table()));
  }
}

TEST(FromItemsTest, TypesAreThoseOfTheValues) {
  std::vector<Json> items = {{{"X", 1}, {"Y", 1}, {"text", "a"}, {"ok", nullptr}},
                             {{"X", 2.5}, {"Y", nullptr}, {"ok", true}},
                             {{"X", 3}, {"Y", 3}, {"text", "c"}, {"ok", false}, {"none", nullptr}}};
  Dataset dataset = from_items(items);
  EXPECT_EQ(describe_columns(*dataset.schema()),
            "X: double, Y: int64, none: null, ok: bool, text: string");
  auto table = dataset.to_table();
  EXPECT_TRUE(table->column(0)->chunk(0)->Equals(array_from_json(arrow::float64(), {1, 2.5, 3})));
  EXPECT_TRUE(table->column(1)->chunk(0)->Equals(array_from_json(arrow::int64(), {1, nullptr, 3})));
  EXPECT_TRUE(table->column(3)->chunk(0)->Equals(
      array_from_json(arrow::boolean(), {nullptr, true, false})));
  EXPECT_TRUE(
      table->column(4)->chunk(0)->Equals(array_from_json(arrow::utf8(), {"a", nullptr, "c"})));
  EXPECT_THAT(ints(*from_items({3, 1, 2}).to_table(), "item"), ElementsAre(3, 1, 2));
}

TEST(FromItemsTest, MixedTypesAreAnErrorThatNamesTheItem) {
  auto making = [](const std::vector<Json>& items) {
    return message_of(ErrorKind::kInvalidArgument, [&] { from_items(items); });
  };
  EXPECT_THAT(
      making({{{"x", nullptr}}, {{"x", 1}}, {{"x", "two"}}}),
      AllOf(HasSubstr("'x' of item 2"), HasSubstr("\"two\""), HasSubstr("item 1 has an integer")));
  EXPECT_THAT(making({{{"x", true}}, {{"x", 1}}}), HasSubstr("item 1"));
  EXPECT_THAT(making({{{"x", {1, 2}}}}), AllOf(HasSubstr("item 0"), HasSubstr("from_arrow")));
  EXPECT_THAT(making({{{"x", uint64_t{1} << 63}}}), HasSubstr("int64"));
  EXPECT_THAT(making({{{"x", 0.5}}, {{"x", (int64_t{1} << 53) + 1}}}),
              AllOf(HasSubstr("item 1, 9007199254740993, would be rounded")));
  EXPECT_THAT(making({{{"x", "\xff"}}}), HasSubstr("not UTF-8"));
  EXPECT_THAT(making({{{"x", 1}}, 7}), HasSubstr("item 1, 7, is no object"));
  EXPECT_THAT(making({Json::object()}), HasSubstr("no fields"));
  EXPECT_THAT(making({}), HasSubstr("no item"));
}

}  // namespace
}  // namespace manta::data
