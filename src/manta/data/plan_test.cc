#include <gmock/gmock.h>
#include <sqlite3.h>

#include <filesystem>
#include <functional>

#include "manta/base/names_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/sources.h"

namespace manta::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<arrow::RecordBatch> keep_all(const std::shared_ptr<arrow::RecordBatch>& batch) {
  return batch;
}
const auto named_keep = named("keep_all", keep_all);
Row same_row(const Row& row) { return row; }
std::vector<Row> row_twice(const Row& row) { return {row, row}; }
bool row_stays(const Row& row) { return row.get<int64_t>("id") >= 0; }
const auto named_same_row = named("same_row", same_row);
const auto named_twice = named("row_twice", row_twice);
const auto named_stays = named("row_stays", row_stays);

// Every operation once.
Dataset everything(ParquetFolder& folder) {
  return read_parquet(folder.write_rows("a.parquet", 0, 50, 20))
      .filter(col("id") >= 3 && col("text") != "t5")
      .with_column("twice", col("half") * 2)
      .select_columns({"id", "twice", "text"})
      .drop_na({"twice"})
      .drop_columns({"text"})
      .train_test_split(0.25, {.shuffle = true, .seed = 3})
      .first.map_batches(named_keep, {.batch_size = 7})
      .window_shuffle({.rows = 30, .seed = 4});
}

// The other operations on rows, and other sources.
std::vector<Dataset> everything_else(ParquetFolder& folder) {
  std::filesystem::create_directories(folder / "t/year=2020");
  folder.write_rows("t/year=2020/a.parquet", 0, 30, 10);
  Dataset files = read_parquet(folder / "t");
  sqlite3* database = nullptr;
  sqlite3_open((folder / "a.db").c_str(), &database);
  sqlite3_exec(database, "CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS id, 'a' AS text", nullptr,
               nullptr, nullptr);
  sqlite3_close(database);
  return {files.limit(25)
              .add_column("more", col("id") + 1)
              .rename_columns({{"half", "part"}})
              .fill_na(0, {.columns = {"part"}})
              .fill_na("none")
              .random_sample(0.9, {.seed = 1})
              .filter(named_stays)
              .map(named_same_row)
              .flat_map(named_twice),
          files.filter(col("year") == 2020)
              .limit(15)
              .train_test_split(0.2, {.shuffle = true, .seed = 2})
              .second,
          read_sql(folder / "a.db", "SELECT id, text FROM t ORDER BY id")};
}

void run_if_it_can_be_read(const Json& json) {
  try {
    Dataset::from_json(json).to_table();
  } catch (const Error&) {
  }
}

// Calls `change` for every value of the JSON, which it may overwrite.
void for_each_value(Json& json, const std::function<void(Json&)>& change) {
  change(json);
  if (!json.is_structured()) return;
  for (auto& inner : json) for_each_value(inner, change);
}

TEST(PlanJsonTest, EveryOperationComesBack) {
  ParquetFolder folder;
  auto dataset = everything(folder);
  auto text = dataset.to_json().dump();
  auto copy = Dataset::from_json(Json::parse(text));
  EXPECT_EQ(copy.to_json().dump(), text);
  EXPECT_TRUE(copy.to_table()->Equals(*dataset.to_table()));
  EXPECT_EQ(copy.explain(), dataset.explain());
}

TEST(PlanJsonTest, SoDoOtherSourcesAndOperations) {
  ParquetFolder folder;
  for (const Dataset& dataset : everything_else(folder)) {
    auto text = dataset.to_json().dump();
    auto copy = Dataset::from_json(Json::parse(text));
    EXPECT_EQ(copy.to_json().dump(), text);
    EXPECT_TRUE(copy.to_table()->Equals(*dataset.to_table()));
    EXPECT_EQ(copy.explain(), dataset.explain());
  }
}

void put_anything_anywhere(const Json& original) {
  const Json values[] = {nullptr,
                         true,
                         -1,
                         0,
                         1,
                         int64_t{1} << 62,
                         INT64_MIN,
                         UINT64_MAX,
                         1e300,
                         0.5,
                         "",
                         "\xff\xfe",
                         "/",
                         std::string("/a\0b", 4),
                         Json::array(),
                         Json::object(),
                         Json::array({-1}),
                         Json::array({UINT64_MAX, 1}),
                         Json{{"op", "filter"}},
                         Json{{"name", "keep_all"}}};
  int places = 0;
  Json json = original;
  for_each_value(json, [&](Json&) { ++places; });
  for (int place = 0; place < places; ++place) {
    for (const auto& value : values) {
      Json changed = original;
      int at = 0;
      // It does not walk into a value that was put there: that is no place of the original.
      std::function<void(Json&)> walk = [&](Json& each) {
        if (at++ == place) {
          each = value;
          return;
        }
        if (!each.is_structured()) return;
        for (auto& inner : each) walk(inner);
      };
      walk(changed);
      run_if_it_can_be_read(changed);
    }
  }
  for (const auto& [name, value] : original.items()) {
    Json without = original;
    without.erase(name);
    run_if_it_can_be_read(without);
  }
}

TEST(PlanJsonTest, WhateverAFieldHoldsAnErrorSaysSo) {
  ParquetFolder folder;
  put_anything_anywhere(everything(folder).to_json());
}

TEST(PlanJsonTest, WhateverAFieldOfOtherOperationsHoldsAnErrorSaysSo) {
  ParquetFolder folder;
  for (const Dataset& dataset : everything_else(folder)) put_anything_anywhere(dataset.to_json());
}

TEST(PlanJsonTest, LimitsAreNamed) {
  ParquetFolder folder;
  const Json original = everything(folder).to_json();
  auto refused = [&](const std::function<void(Json&)>& change) {
    Json json = original;
    change(json);
    return message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(json); });
  };
  EXPECT_THAT(refused([](Json& j) { j["version"] = 2; }),
              HasSubstr("version is 2; expected a whole number from 1 to 1"));
  EXPECT_THAT(refused([](Json& j) { j["source"]["files"][0]["row_groups"][1] = -5; }),
              HasSubstr("one is -5"));
  EXPECT_THAT(refused([](Json& j) { j["source"]["files"][0]["row_groups"][1] = UINT64_MAX; }),
              HasSubstr("one is 18446744073709551615"));
  EXPECT_THAT(refused([](Json& j) { j["source"]["files"][0]["path"] = "a.parquet"; }),
              HasSubstr("an absolute path"));
  EXPECT_THAT(refused([](Json& j) { j["source"]["files"] = Json::array(); }),
              HasSubstr("without files"));
  EXPECT_THAT(refused([](Json& j) { j["operations"][5]["test_rows"] = {1}; }), HasSubstr("split"));
  EXPECT_THAT(refused([](Json& j) { j["operations"][5]["test_rows"][0] = 1000; }),
              HasSubstr("split"));
  EXPECT_THAT(refused([](Json& j) { j["operations"][5]["part"] = "all"; }),
              HasSubstr("operations[5].part is \"all\"; expected \"train\" or \"test\""));
  EXPECT_THAT(refused([](Json& j) { j["operations"][6]["rows"] = 0; }),
              HasSubstr("operations[6].rows is 0"));
  EXPECT_THAT(refused([](Json& j) { j["operations"][6]["function"] = 1; }),
              HasSubstr("function is 1; expected a whole number from 0 to 0"));
  EXPECT_THAT(refused([](Json& j) { j["operations"][7]["rows"] = 0; }),
              HasSubstr("operations[7].rows is 0"));
  EXPECT_THAT(refused([](Json& j) { j["operations"][7]["rows"] = 1.5; }), HasSubstr("rows is 1.5"));
  EXPECT_THAT(refused([](Json& j) { j["operations"][7]["seed"] = -1; }), HasSubstr("seed is -1"));
  EXPECT_THAT(refused([](Json& j) { j["operations"].push_back(j["operations"][7]); }),
              HasSubstr("shuffle once"));
  EXPECT_THAT(refused([](Json& j) { j["operations"].push_back(j["operations"][5]); }),
              HasSubstr("split first"));
  EXPECT_THAT(refused([](Json& j) {
                j["operations"][0] = {{"op", "system"}};
              }),
              HasSubstr("operations[0].op is \"system\""));
  EXPECT_THAT(refused([](Json& j) { j["columns"] = {"id", "id"}; }), HasSubstr("twice"));
}

TEST(PlanJsonTest, DeepNestingIsRefused) {
  ParquetFolder folder;
  Json json = everything(folder).to_json();
  Json deep = Json::parse(std::string(200000, '[') + std::string(200000, ']'));
  std::swap(json["operations"][0]["expression"], deep);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(json); }),
              HasSubstr("inside each other"));
}

Json travelled(const Json& json) {
  std::string bytes;
  OutArchive out(bytes);
  out(json);
  InArchive in(bytes);
  Json copy;
  in(copy);
  return copy;
}

// An expression that works here must work in the workers, and after a restart.
TEST(PlanJsonTest, TheDeepestExpressionTravelsAndIsStored) {
  ParquetFolder folder;
  Expression sum = col("id");
  for (int i = 1; i < kMaxExpressionDepth; ++i) sum = sum + 1;
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { sum + 1; }),
              HasSubstr("more than 249 operators"));
  auto deep = read_parquet(folder.write_rows("a.parquet", 0, 50, 20)).with_column("sum", sum);
  EXPECT_EQ(Dataset::from_json(deep.to_json()).count(), 50);
  EXPECT_EQ(travelled(WirePlan(*deep.plan()).json), WirePlan(*deep.plan()).json);
}

TEST(PlanJsonTest, AFilterByManyValuesTravelsAndIsStored) {
  ParquetFolder folder;
  Expression any = col("id") == 0, other = col("id") == 0;
  for (int i = 1; i < 2000; ++i) {
    any = any || col("id") == 2 * i;
    other = col("id") == 2 * i || other;  // the other way round
  }
  for (const auto& filter : {any, other}) {
    auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 50, 20)).filter(filter);
    EXPECT_EQ(dataset.count(), 25);
    EXPECT_EQ(Dataset::from_json(dataset.to_json()).count(), 25);
    EXPECT_EQ(travelled(WirePlan(*dataset.plan()).json), WirePlan(*dataset.plan()).json);
  }
}

TEST(PlanJsonTest, NamesAndPathsThatJsonWouldChangeAreNotStored) {
  ParquetFolder folder;
  auto path = folder.write_rows("\xff.parquet", 0, 50, 20);
  auto dataset = read_parquet(path);
  EXPECT_THAT(dataset.plan()->why_not_stored(), HasSubstr("is not UTF-8. Rename the file"));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { dataset.to_json(); }),
              HasSubstr("cannot be stored: the path"));
  auto renamed =
      read_parquet(folder.write_rows("a.parquet", 0, 5, 5)).with_column("\xff", col("id"));
  EXPECT_THAT(renamed.plan()->why_not_stored(), HasSubstr("the name of a column is not UTF-8"));
  // On the wire they do not change.
  EXPECT_EQ(Dataset(WirePlan(*dataset.plan()).plan()).count(), 50);
  EXPECT_EQ(Dataset(WirePlan(*renamed.plan()).plan()).columns().back(), "\xff");
}

// A user-defined operation: nothing outside this class knows it.
class FirstOfEach final : public FlowOperation {
 public:
  std::string to_string() const override { return "first_of_each()"; }
  Json to_json(PlanFunctions&) const override { return {{"op", "first_of_each"}}; }
  void check_after(const Plan&) const override {}
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    if (!before) return before;
    return std::min<int64_t>(*before, 1);
  }
  bool may_add_rows() const override { return false; }
  bool add_bounds(FileBounds&) const override { return false; }
  std::unique_ptr<Flow> begin(const Place&) const override { return std::make_unique<First>(); }

 private:
  struct First final : Flow {
    void add(const std::shared_ptr<arrow::RecordBatch>& batch, const TakeBatch& take) override {
      if (!given) take(batch->Slice(0, 1));
      given = true;
    }
    void finish(const TakeBatch&) override {}
    bool given = false;
  };
};

TEST(OperationTest, AnOperationIsOneClass) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 50, 20)).filter(col("id") > 4);
  auto first = then(dataset, std::make_shared<FirstOfEach>()).select_columns({"id"});
  EXPECT_THAT(ints(*first.to_table(), "id"), ElementsAre(5, 20, 40));
  EXPECT_EQ(first.count(), 3);
  EXPECT_THAT(columns_used(*first.plan()).read, ElementsAre("id"));
  EXPECT_THAT(first.explain(), HasSubstr("\nfirst_of_each()\nselect_columns(id)"));
  EXPECT_THAT(first.plan()->to_json().dump(), HasSubstr("first_of_each"));
  auto unread = then(read_parquet(folder.file("a.parquet")), std::make_shared<FirstOfEach>());
  EXPECT_EQ(unread.count(), 3);
  EXPECT_THAT(rows_per_fragment(unread.plan()), ElementsAre(1, 1, 1));
}

TEST(OperationTest, ASplitIsCountedWithoutReading) {
  ParquetFolder folder;
  auto path = folder.write_rows("a.parquet", 0, 50, 20);
  auto [train, test] = read_parquet(path).filter(col("id") > 4).train_test_split(10);
  EXPECT_THAT(rows_per_fragment(train.plan()), ElementsAre(15, 20, 0));
  EXPECT_EQ(test.plan()->estimated_rows(), 10);
  EXPECT_EQ(train.plan()->estimated_rows(), 35);
}

}  // namespace
}  // namespace manta::data
