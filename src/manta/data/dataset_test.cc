#include "manta/data/dataset.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <numeric>

#include "manta/core/object_ref.h"
#include "manta/core/remote.h"
#include "manta/data/operation_split_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/plan_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Batch = std::shared_ptr<arrow::RecordBatch>;

Batch keep(const Batch& batch) { return batch; }
Batch id_only(const Batch& batch) { return check(batch->SelectColumns({0}), "id_only"); }
const auto named_id_only = named("id_only", id_only);

std::vector<int64_t> joined(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(DatasetTest, ThePipelineOfTheTaxiTrips) {
  ParquetFolder folder;
  auto time = arrow::timestamp(arrow::TimeUnit::MICRO);
  auto second = [](int64_t seconds) { return (1577836800 + seconds) * 1000000; };
  auto times = [&](const Json& values) {
    return check(array_from_json(arrow::int64(), values)->View(time), "times");
  };
  auto numbers = [](const Json& values) { return array_from_json(arrow::float64(), values); };
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("pickup", time), arrow::field("dropoff", time),
                     arrow::field("tip", arrow::float64()),
                     arrow::field("passengers", arrow::float64()),
                     arrow::field("fare", arrow::float64())}),
      {times({second(3600), second(0), second(90000), second(0), second(5)}),
       times({second(3700), second(10), second(90060), second(20000), second(4)}),
       numbers({3.0, 1.0, 1.0, 1.0, 1.0}), numbers({1, nullptr, 4, 1, 1}),
       numbers({10.0, 10.0, 10.0, 10.0, 10.0})});
  auto result = read_parquet(folder.write("t.parquet", *table, 2))
                    .drop_na()
                    .filter(col("passengers") <= 4 && col("fare") < 1000)
                    .with_column("duration", seconds_between(col("pickup"), col("dropoff")))
                    .filter(col("duration") < 4 * 60 * 60)
                    .with_column("hour", hour(col("pickup")))
                    .with_column("day_of_week", day_of_week(col("pickup")))
                    .with_column("is_big_tip", col("tip") > 0.2 * col("fare"))
                    .drop_columns({"pickup", "dropoff", "tip"})
                    .to_table();
  EXPECT_EQ(result->num_rows(), 2);
  EXPECT_THAT(result->schema()->field_names(),
              ElementsAre("passengers", "fare", "duration", "hour", "day_of_week", "is_big_tip"));
  auto value = [&](const char* name, int64_t row) {
    return check(result->GetColumnByName(name)->GetScalar(row), "a value")->ToString();
  };
  EXPECT_EQ(value("duration", 0), "100");
  EXPECT_EQ(value("duration", 1), "60");
  EXPECT_EQ(value("hour", 0), "1");
  EXPECT_EQ(value("day_of_week", 0), "2");
  EXPECT_EQ(value("day_of_week", 1), "3");
  EXPECT_EQ(value("is_big_tip", 0), "true");
  EXPECT_EQ(value("is_big_tip", 1), "false");
}

TEST(DatasetTest, ColumnsComeInTheOrderAskedFor) {
  ParquetFolder folder;
  auto path = folder.write_rows("a.parquet", 0, 10, 4);
  auto dataset = read_parquet(path, {.columns = {"text", "id"}});
  EXPECT_THAT(dataset.columns(), ElementsAre("text", "id"));
  EXPECT_THAT(dataset.to_table()->schema()->field_names(), ElementsAre("text", "id"));
  auto replaced = read_parquet(path).with_column("id", lit(7)).with_column("z", col("half") * 2);
  EXPECT_THAT(replaced.columns(), ElementsAre("id", "half", "text", "z"));
  auto table = replaced.to_table();
  EXPECT_TRUE(table->schema()->Equals(*replaced.schema()));
  EXPECT_EQ(ints(*table, "id"), std::vector<int64_t>(10, 7));
  EXPECT_THAT(read_parquet(path).select_columns({"half", "id"}).columns(),
              ElementsAre("half", "id"));
}

TEST(DatasetTest, OnlyColumnsThatAreUsedAreRead) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 10, 4));
  auto reads = [](const Dataset& d) { return columns_used(*d.plan()).read; };
  EXPECT_THAT(reads(dataset), ElementsAre("id", "half", "text"));
  EXPECT_THAT(reads(dataset.select_columns({"id"})), ElementsAre("id"));
  EXPECT_THAT(reads(dataset.filter(col("half") > 1).select_columns({"id"})),
              ElementsAre("id", "half"));
  auto unused = dataset.with_column("x", col("half") + 1).with_column("id", lit(1));
  EXPECT_THAT(reads(unused.select_columns({"id", "text"})), ElementsAre("text"));
  EXPECT_THAT(reads(dataset.map_batches(id_only).select_columns({"id"})),
              ElementsAre("id", "half", "text"));
  EXPECT_THAT(reads(dataset.select_columns({"id"}).window_shuffle().map_batches(keep)),
              ElementsAre("id"));
  EXPECT_EQ(unused.select_columns({"id"}).to_table()->num_rows(), 10);
}

TEST(DatasetTest, CountsWithAndWithoutReading) {
  ParquetFolder folder;
  folder.write_rows("a.parquet", 0, 70, 16);
  folder.write_rows("b.parquet", 70, 0, 16);
  auto dataset = read_parquet(folder.path());
  EXPECT_EQ(dataset.count(), 70);
  EXPECT_EQ(dataset.window_shuffle().count(), 70);
  EXPECT_EQ(dataset.drop_na().count(), 60);
  EXPECT_EQ(dataset.drop_na({"id"}).count(), 70);
  EXPECT_EQ(dataset.filter(col("id") < 10).count(), 10);
  EXPECT_EQ(dataset.map_batches(id_only).count(), 70);
  EXPECT_EQ(dataset.filter(col("id") < 0).count(), 0);
}

TEST(DatasetTest, DropNaDropsNaNToo) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 10, 10))
                     .drop_na()
                     .with_column("ratio", (col("half") - 1) / (col("half") - 1));
  EXPECT_EQ(dataset.count(), 9);
  EXPECT_THAT(ints(*dataset.drop_na({"ratio"}).to_table(), "id"),
              ElementsAre(0, 1, 4, 5, 6, 7, 8, 9));
}

TEST(DatasetTest, FiltersBeforeACastProtectIt) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 100, 100));
  auto fractions = dataset.with_column("n", col("half").cast("int64"));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { fractions.to_table(); }),
              HasSubstr("row group 0 of '"));
  auto even = dataset.filter(col("text") == "t2").with_column("n", col("half").cast("int64"));
  EXPECT_EQ(ints(*even.drop_na().to_table(), "n").size(), 9u);
}

TEST(DatasetTest, EmptyResultsKeepTheirColumns) {
  ParquetFolder folder;
  auto none = read_parquet(folder.write_rows("a.parquet", 0, 10, 4)).filter(col("half") < -1);
  EXPECT_EQ(none.to_table()->num_rows(), 0);
  EXPECT_THAT(none.to_table()->schema()->field_names(), ElementsAre("id", "half", "text"));
  EXPECT_EQ(none.take(5)->num_rows(), 0);
  auto no_rows = read_parquet(folder.write_rows("b.parquet", 0, 0, 4));
  EXPECT_EQ(no_rows.to_table()->num_rows(), 0);
  EXPECT_EQ(no_rows.count(), 0);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { no_rows.map_batches(keep).schema(); }),
              HasSubstr("no rows"));
}

TEST(DatasetTest, TakeReadsTheFirstRows) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 100, 10));
  EXPECT_EQ(ints(*dataset.take(13), "id").back(), 12);
  EXPECT_EQ(dataset.take(13)->num_rows(), 13);
  EXPECT_EQ(dataset.take(1000)->num_rows(), 100);
  EXPECT_EQ(dataset.take(0)->num_rows(), 0);
}

TEST(DatasetTest, ShowPrintsATable) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 2, 10, 10));
  testing::internal::CaptureStdout();
  dataset.show(2);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "id  half  text\n"
            " 2     1    t2\n"
            " 3  null    t3\n");
}

TEST(DatasetTest, ShowPrintsWhatIsOddOnOneLine) {
  ParquetFolder folder;
  auto words = check(arrow::json::ArrayFromJSONString(
                         arrow::dictionary(arrow::int8(), arrow::utf8()), R"(["one", "two"])"),
                     "words");
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("b\n", arrow::binary()), arrow::field("word", words->type()),
                     arrow::field("ü", arrow::utf8())}),
      {array_from_json(arrow::binary(), {"\x01", "x"}), words,
       array_from_json(arrow::utf8(), {"a\nb", std::string(50, 'c')})});
  auto dataset = read_parquet(folder.write("a.parquet", *table, 10));
  EXPECT_THAT(dataset.drop_columns({"word"}).explain(),
              AllOf(HasSubstr("columns: b\\n, ü"), HasSubstr("drop_columns(word)")));
  testing::internal::CaptureStdout();
  dataset.show();
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            " b\\n  word                                 ü\n"
            "\\x01   one                              a\\nb\n"
            "   x   two  ccccccccccccccccccccccccccccc...\n");
}

TEST(DatasetTest, BatchesReachAcrossRowGroups) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 100, 9));
  std::vector<int64_t> sizes, ids;
  for (auto& batch : dataset.iter_batches({.batch_size = 30})) {
    sizes.push_back(batch->num_rows());
    ids = joined(ids, ints(*batch, "id"));
  }
  EXPECT_THAT(sizes, ElementsAre(30, 30, 30, 10));
  EXPECT_EQ(ids, ints(*dataset.to_table(), "id"));
  int batches = 0;
  for (auto& batch : dataset.iter_batches({.batch_size = 30, .drop_last = true})) {
    EXPECT_EQ(batch->num_rows(), 30);
    ++batches;
  }
  EXPECT_EQ(batches, 3);
  for (auto& batch : dataset.filter(col("id") < 0).iter_batches()) ADD_FAILURE() << batch;
}

TEST(DatasetTest, ExplainTellsWhatIsReadAndSkipped) {
  ParquetFolder folder;
  auto text = read_parquet(folder.write_rows("a.parquet", 0, 100, 10))
                  .filter(col("id") >= 35 && col("id") < 50)
                  .map_batches(keep)
                  .window_shuffle({.rows = 50, .seed = 9})
                  .select_columns({"id"})
                  .explain();
  EXPECT_THAT(text, HasSubstr("1 files, 10 row groups; first file"));
  EXPECT_THAT(text, HasSubstr("reads 3 of 3 columns: id, half, text"));
  EXPECT_THAT(text, HasSubstr("skips 8 of 10 fragments: 0-2, 5-9; 100 rows in all"));
  EXPECT_THAT(text, HasSubstr("filter((id >= 35) && (id < 50))\nmap_batches("));
  EXPECT_THAT(text, HasSubstr("window_shuffle(rows = 50, seed = 9)\nselect_columns(id)"));
}

// For each filter: the same rows as when the statistics cannot be used, because the column is
// computed.
TEST(DatasetTest, SkippingRowGroupsDoesNotChangeResults) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 1000, 50));
  struct Case {
    std::function<Expression(const char* id, const char* half, const char* text)> condition;
    bool skips;
  };
  using S = const char*;
  const Case cases[] = {
      {[](S id, S, S) { return col(id) < 120; }, true},
      {[](S id, S, S) { return col(id) <= 149.5; }, true},
      {[](S id, S, S) { return 120 > col(id); }, true},
      {[](S id, S, S) { return 900 <= col(id); }, true},
      {[](S id, S, S) { return col(id) == 99; }, true},
      {[](S id, S, S) { return 100 == col(id) || col(id) == 3; }, false},
      {[](S id, S, S) { return col(id) != 99; }, false},
      {[](S id, S half, S) { return col(half) > 400 && col(id) > 850; }, true},
      {[](S, S half, S) { return col(half) >= 499.5; }, true},
      {[](S, S, S text) { return col(text) == "t3"; }, false},
      {[](S, S, S text) { return col(text) > "t9"; }, true},
      {[](S, S half, S) { return !(col(half) > 10); }, false},
  };
  auto copies = dataset.with_column("a", col("id") + 0)
                    .with_column("b", col("half") + 0)
                    .with_column("c", col("text"));
  for (const auto& test : cases) {
    auto direct = dataset.filter(test.condition("id", "half", "text"));
    auto computed = copies.filter(test.condition("a", "b", "c"));
    EXPECT_EQ(ints(*direct.to_table(), "id"), ints(*computed.to_table(), "id")) << direct.explain();
    EXPECT_THAT(computed.explain(), HasSubstr("skips 0 of 20"));
    if (test.skips) {
      EXPECT_THAT(direct.explain(), Not(HasSubstr("skips 0 of 20")));
    } else {
      EXPECT_THAT(direct.explain(), HasSubstr("skips 0 of 20"));
    }
    WindowShuffleOptions shuffle{.rows = 120, .seed = 5};
    EXPECT_EQ(ints(*direct.window_shuffle(shuffle).to_table(), "id"),
              ints(*computed.window_shuffle(shuffle).to_table(), "id"));
    auto after = dataset.window_shuffle(shuffle);
    EXPECT_THAT(after.filter(test.condition("id", "half", "text")).explain(),
                HasSubstr("skips 0 of 20"));
  }
  auto overwritten = dataset.with_column("id", col("id") + 1000).filter(col("id") > 1900);
  EXPECT_EQ(overwritten.count(), 99);
}

TEST(DatasetTest, JsonMakesTheSameDataset) {
  ParquetFolder folder;
  auto path = folder.write_rows("a.parquet", 0, 500, 30);
  auto start = read_parquet(path, {.columns = {"half", "id"}});
  auto [train, test] =
      start.drop_na().train_test_split(0.25, {.shuffle = true, .seed = uint64_t{1} << 63});
  auto named = start.map_batches(named_id_only, {.batch_size = 7});
  for (const auto& dataset :
       {start, train, test.window_shuffle({.rows = 100}), named.filter(col("half") > 5),
        start.with_column("x", col("id") / 2).select_columns({"x", "id"}).drop_columns({"x"}),
        start.map_batches(named_id_only).drop_na()}) {
    auto text = dataset.to_json().dump();
    auto copy = Dataset::from_json(Json::parse(text));
    EXPECT_EQ(copy.to_json().dump(), text);
    EXPECT_TRUE(copy.to_table()->Equals(*dataset.to_table())) << dataset.explain();
    EXPECT_EQ(copy.columns(), dataset.columns());
  }
}

TEST(DatasetTest, APlanRunsInAnotherProcess) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 500, 30))
                     .filter(col("id") >= 100)
                     .map_batches(id_only)
                     .window_shuffle();
  auto ids =
      remote([](const WirePlan& plan) { return ints(*Dataset(plan.plan()).to_table(), "id"); },
             WirePlan(*dataset.plan()));
  EXPECT_EQ(get(ids), ints(*dataset.to_table(), "id"));
}

// More rows than are computed at a time.
TEST(DatasetTest, LargeRowGroups) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 150000, 1 << 20));
  EXPECT_EQ(dataset.drop_na().count(), 150000 - 21429);
  for (int64_t limit : {10, 40000, 149000}) {
    auto few = dataset.filter(col("id") < limit).with_column("twice", col("id") * 2);
    auto twice = ints(*few.to_table(), "twice");
    ASSERT_EQ(static_cast<int64_t>(twice.size()), limit);
    EXPECT_EQ(twice.back(), 2 * (limit - 1));
  }
  auto [train, test] = dataset.drop_na().train_test_split(0.1, {.shuffle = true, .seed = 3});
  auto both = joined(ints(*train.window_shuffle({.seed = 1}).to_table(), "id"),
                     ints(*test.to_table(), "id"));
  std::sort(both.begin(), both.end());
  EXPECT_EQ(both, ints(*dataset.drop_na().to_table(), "id"));
  int64_t next = 0;
  for (auto& batch :
       dataset.map_batches(id_only, {.batch_size = 999}).iter_batches({.batch_size = 4001})) {
    for (int64_t id : ints(*batch, "id")) ASSERT_EQ(id, next++);
  }
  EXPECT_EQ(next, 150000);
}

TEST(DatasetTest, AFileThatChangedUnderAPlanIsNoticed) {
  ParquetFolder folder;
  auto path = folder.write_rows("a.parquet", 0, 50, 30);
  auto json = read_parquet(path).to_json();
  folder.write_rows("a.parquet", 0, 51, 30);
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { Dataset::from_json(json).to_table(); }),
              HasSubstr("has changed"));
}

TEST(DatasetTest, MistakesAreFoundWhenThePlanIsBuilt) {
  ParquetFolder folder;
  auto path = folder.write_rows("a.parquet", 0, 50, 30);
  auto dataset = read_parquet(path);
  auto missing = [](auto call) { return message_of(ErrorKind::kNotFound, call); };
  auto invalid = [](auto call) { return message_of(ErrorKind::kInvalidArgument, call); };
  EXPECT_THAT(missing([&] { dataset.filter(col("fare") > 1); }),
              HasSubstr("no column 'fare'; there are 'id', 'half', 'text'"));
  EXPECT_THAT(missing([&] { dataset.select_columns({"fare"}); }), HasSubstr("no column 'fare'"));
  EXPECT_THAT(invalid([&] { dataset.select_columns({"id", "id"}); }), HasSubstr("twice"));
  EXPECT_THAT(missing([&] { dataset.drop_columns({"fare"}); }), HasSubstr("no column 'fare'"));
  EXPECT_THAT(missing([&] { dataset.drop_na({"fare"}); }), HasSubstr("no column 'fare'"));
  EXPECT_THAT(invalid([&] { dataset.filter(col("id") + 1); }), HasSubstr("not a condition"));
  EXPECT_THAT(invalid([&] { dataset.filter(col("text") > 1); }),
              HasSubstr("'text' of type string"));
  EXPECT_THAT(invalid([&] { dataset.map_batches(keep, {.batch_size = 0}); }),
              HasSubstr("batch_size"));
  EXPECT_THAT(invalid([&] { dataset.iter_batches({.batch_size = 0}); }), HasSubstr("batch_size"));
  EXPECT_THAT(invalid([&] { dataset.window_shuffle({.rows = 0}); }), HasSubstr("rows"));
  auto shuffled = dataset.window_shuffle();
  EXPECT_THAT(invalid([&] { shuffled.window_shuffle(); }), HasSubstr("shuffle once"));
  EXPECT_THAT(invalid([&] { shuffled.train_test_split(0.5); }), HasSubstr("split first"));
  EXPECT_THAT(invalid([&] { dataset.train_test_split(1.5); }), HasSubstr("1.5"));
  EXPECT_THAT(invalid([&] { dataset.train_test_split(50); }), HasSubstr("50 test rows of 50"));
  EXPECT_THAT(missing([&] { dataset.map_batches(id_only).filter(col("half") > 1).to_table(); }),
              HasSubstr("row group 0 of '" + path + "': in half > 1: there is no column 'half'"));
}

TEST(DatasetTest, FilesThatCannotBeReadAreNamed) {
  ParquetFolder folder;
  folder.write_rows("a.parquet", 0, 50, 30);
  std::ofstream(folder.file("b.parquet")) << "id,half,text\n1,2,3\n";
  auto b = folder.file("b.parquet");
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { read_parquet(b); }), HasSubstr("'" + b + "'"));
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { read_parquet(folder.path()).count(); }),
              HasSubstr("'" + b + "'"));
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [] { read_parquet("no/such.parquet"); }),
              HasSubstr("'no/such.parquet' does not exist"));
  std::filesystem::create_directory(folder.file("empty"));
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { read_parquet(folder.file("empty")); }),
              HasSubstr(".parquet"));
  EXPECT_THAT(
      message_of(ErrorKind::kInvalidArgument, [] { read_parquet(std::vector<std::string>{}); }),
      HasSubstr("no path"));
  EXPECT_THAT(message_of(ErrorKind::kNotFound,
                         [&] {
                           read_parquet(folder.file("a.parquet"), {.columns = {"id", "fare"}});
                         }),
              HasSubstr("no column 'fare'; there are 'id', 'half', 'text'"));
}

TEST(DatasetTest, FilesMustAgreeOnTheColumnsThatAreRead) {
  ParquetFolder folder;
  auto a = folder.write_rows("a.parquet", 0, 5, 30);
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("half", arrow::int64()), arrow::field("id", arrow::int64())}),
      {array_from_json(arrow::int64(), {8}), array_from_json(arrow::int64(), {5})});
  auto b = folder.write("b.parquet", *table, 10);
  auto message = message_of(ErrorKind::kInvalidArgument, [&] { read_parquet({a, b}).count(); });
  EXPECT_THAT(message, HasSubstr("'" + b + "' has column 'half' as int64, not as double"));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] {
                           read_parquet({b, a}).count();
                         }),
              HasSubstr("'" + a + "'"));
  EXPECT_THAT(ints(*read_parquet({a, b}, {.columns = {"id"}}).to_table(), "id"),
              ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(SplitTest, WithoutShuffleTheLastRowsAreTheTestSet) {
  ParquetFolder folder;
  folder.write_rows("a.parquet", 0, 70, 16);
  folder.write_rows("b.parquet", 70, 30, 16);
  auto dataset = read_parquet(folder.path()).drop_na();
  auto all = ints(*dataset.to_table(), "id");
  for (int64_t test_rows : {1, 20, 43, static_cast<int>(all.size()) - 1}) {
    auto [train, test] = dataset.train_test_split(test_rows);
    EXPECT_EQ(test.count(), test_rows);
    EXPECT_EQ(joined(ints(*train.to_table(), "id"), ints(*test.to_table(), "id")), all);
  }
  auto [train, test] = dataset.train_test_split(0.3);
  EXPECT_EQ(test.count(), static_cast<int64_t>(std::ceil(0.3 * static_cast<double>(all.size()))));
  EXPECT_THAT(test.explain(), HasSubstr("skips 5 of 7 fragments: 0-4"));
}

TEST(SplitTest, ShuffledItTakesItsShareOfEveryRowGroup) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 1000, 100));
  auto [train, test] = dataset.train_test_split(0.205, {.shuffle = true, .seed = 4});
  auto train_ids = ints(*train.to_table(), "id");
  auto test_ids = ints(*test.to_table(), "id");
  EXPECT_EQ(test_ids.size(), 205u);
  EXPECT_TRUE(std::is_sorted(test_ids.begin(), test_ids.end()));
  auto both = joined(train_ids, test_ids);
  std::sort(both.begin(), both.end());
  EXPECT_EQ(both, ints(*dataset.to_table(), "id"));
  std::vector<int> per_group(10, 0);
  for (int64_t id : test_ids) ++per_group[static_cast<size_t>(id / 100)];
  for (int count : per_group) EXPECT_TRUE(count == 20 || count == 21);
  auto again = dataset.train_test_split(0.205, {.shuffle = true, .seed = 4}).second;
  EXPECT_EQ(ints(*again.to_table(), "id"), test_ids);
  auto other = dataset.train_test_split(0.205, {.shuffle = true, .seed = 5}).second;
  EXPECT_NE(ints(*other.to_table(), "id"), test_ids);
}

TEST(SplitTest, PartsCanBeFilteredShuffledAndSplitAgain) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 300, 40));
  auto [rest, test] = dataset.train_test_split(60, {.shuffle = true, .seed = 1});
  auto [train, valid] = rest.train_test_split(0.25, {.shuffle = true, .seed = 2});
  EXPECT_EQ(train.count(), 180);
  EXPECT_EQ(valid.count(), 60);
  auto all =
      joined(joined(ints(*train.window_shuffle().to_table(), "id"), ints(*valid.to_table(), "id")),
             ints(*test.to_table(), "id"));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, ints(*dataset.to_table(), "id"));
  EXPECT_EQ(test.filter(col("id") < 150).count() + test.filter(col("id") >= 150).count(), 60);
}

TEST(SplitTest, AllotmentsAddUp) {
  EXPECT_THAT(allot({10, 10, 10}, 10), ElementsAre(4, 3, 3));
  EXPECT_THAT(allot({0, 5, 95}, 1), ElementsAre(0, 0, 1));
  EXPECT_THAT(last_rows({3, 0, 4}, 5), ElementsAre(1, 0, 4));
}

}  // namespace
}  // namespace manta::data
