#include <gmock/gmock.h>

#include <functional>

#include "manta/data/dataset.h"
#include "manta/data/json_fields_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/plan_internal.h"

namespace manta::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<arrow::RecordBatch> keep_all(const std::shared_ptr<arrow::RecordBatch>& batch) {
  return batch;
}
const auto named_keep = named("keep_all", keep_all);

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

TEST(PlanJsonTest, WhateverAFieldHoldsAnErrorSaysSo) {
  ParquetFolder folder;
  const Json original = everything(folder).to_json();
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
      // What was put there is not walked into: it is no place of the original.
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

TEST(PlanJsonTest, LimitsAreNamed) {
  ParquetFolder folder;
  const Json original = everything(folder).to_json();
  auto refused = [&](const std::function<void(Json&)>& change) {
    Json json = original;
    change(json);
    return message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(json); });
  };
  EXPECT_THAT(refused([](Json& j) { j["version"] = 2; }),
              HasSubstr("'version' is 2, not an integer from 1 to 1"));
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
              HasSubstr("in operation 5, split, 'part' is \"all\", not \"train\" or \"test\""));
  EXPECT_THAT(refused([](Json& j) { j["operations"][6]["rows"] = 0; }),
              HasSubstr("in operation 6, map_batches, 'rows' is 0"));
  EXPECT_THAT(refused([](Json& j) { j["operations"][6]["function"] = 1; }),
              HasSubstr("'function' is 1, not an integer from 0 to 0"));
  EXPECT_THAT(refused([](Json& j) { j["operations"][7]["rows"] = 0; }),
              HasSubstr("in operation 7, window_shuffle, 'rows' is 0"));
  EXPECT_THAT(refused([](Json& j) { j["operations"][7]["rows"] = 1.5; }), HasSubstr("is 1.5, not"));
  EXPECT_THAT(refused([](Json& j) { j["operations"][7]["seed"] = -1; }), HasSubstr("'seed'"));
  EXPECT_THAT(refused([](Json& j) { j["operations"].push_back(j["operations"][7]); }),
              HasSubstr("shuffle once"));
  EXPECT_THAT(refused([](Json& j) { j["operations"].push_back(j["operations"][5]); }),
              HasSubstr("split first"));
  EXPECT_THAT(refused([](Json& j) {
                j["operations"][0] = {{"op", "system"}};
              }),
              HasSubstr("unknown operation \"system\""));
  EXPECT_THAT(refused([](Json& j) { j["columns"] = {"id", "id"}; }), HasSubstr("twice"));
}

TEST(PlanJsonTest, DeepNestingIsRefused) {
  ParquetFolder folder;
  Json json = everything(folder).to_json();
  Json deep = Json::parse(std::string(200000, '[') + std::string(200000, ']'));
  std::swap(json["operations"][0]["expression"], deep);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(json); }),
              HasSubstr("deep"));
  Expression sum = col("id");
  for (int i = 0; i < 200; ++i) sum = sum + 1;
  auto long_one = read_parquet(folder.file("a.parquet")).with_column("sum", sum);
  EXPECT_EQ(Dataset::from_json(long_one.to_json()).count(), 50);
}

// An operation of somebody else's: nothing outside of this class knows it.
class FirstOfEach final : public BatchOperation {
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
  bool add_bounds(FileBounds&) const override { return false; }
  Batches run(const Batches& batches, const Place&) const override {
    if (batches.empty()) return {};
    return {batches[0]->Slice(0, 1)};
  }
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
