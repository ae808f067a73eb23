// Concatenator of lists, beside Ray's (expected/make_concatenator_expected.py).

#include "manta/preprocess/concatenator.h"

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <fstream>

#include "manta/data/sources.h"
#include "manta/preprocess/preprocess_fixture_internal.h"

namespace manta::preprocess {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Json& lists_of_ray() {
  static const Json all = [] {
    std::ifstream file(MANTA_PREPROCESS_EXPECTED "/concatenator.json");
    return Json::parse(file);
  }();
  return all;
}

TestColumn list_column(const std::string& name) {
  const std::map<std::string, std::shared_ptr<arrow::DataType>> types = {
      {"ints", arrow::list(arrow::int64())},
      {"large", arrow::large_list(arrow::int16())},
      {"floats", arrow::list(arrow::float32())},
      {"flags", arrow::list(arrow::boolean())},
      {"none", arrow::list(arrow::float64())},
      {"fixed", arrow::fixed_size_list(arrow::int32(), 2)},
      {"x", arrow::float64()},
      {"i", arrow::int8()},
  };
  return {name, types.at(name), lists_of_ray()["columns"][name]["values"]};
}

TEST(ConcatenatorTest, TakesListsOfOneLengthAsRayDoes) {
  const std::map<std::string, std::shared_ptr<arrow::DataType>> types = {
      {"int32", arrow::int32()},
      {"int64", arrow::int64()},
      {"float32", arrow::float32()},
      {"float64", arrow::float64()}};
  for (const Json& one : lists_of_ray()["cases"]) {
    SCOPED_TRACE(one.dump());
    std::vector<TestColumn> columns;
    std::vector<std::string> names = one["columns"];
    for (const auto& name : names) columns.push_back(list_column(name));
    auto batch = batch_of(columns);
    Concatenator concatenator(names, {.dtype = one["dtype"], .flatten = true});
    auto expected = data::array_from_json(arrow::list(types.at(one["result"])), one["expected"]);
    auto of = [&](const data::BatchPtr& rows) {
      return concatenator.transform_batch(rows)->column(0);
    };
    EXPECT_TRUE(of(batch)->Equals(expected)) << of(batch)->ToString();
    // The type depends on the columns, not on the rows.
    EXPECT_TRUE(of(batch->Slice(1, 0))->type()->Equals(expected->type()));
    EXPECT_TRUE(of(batch->Slice(2))->Equals(expected->Slice(2)));
    Dataset rows = data::from_arrow(std::vector{batch->Slice(0, 1), batch->Slice(1)});
    auto transformed = concatenator.transform(rows);
    EXPECT_TRUE(transformed.schema()->field(0)->type()->Equals(expected->type()));
    EXPECT_TRUE(all_of(transformed)->column(0)->Equals(expected));
  }
}

TEST(ConcatenatorTest, RaggedListsAreErrorsThatNameTheRow) {
  auto lists = arrow::list(arrow::int64());
  auto batch = batch_of({{"l", lists, {{1, 2}, {3, 4}, {5}}}, {"x", arrow::int64(), {1, 2, 3}}});
  auto failing = [](const data::BatchPtr& rows, ConcatenatorOptions options) {
    return message_of(
        [&] { Concatenator(rows->schema()->field_names(), options).transform_batch(rows); });
  };
  EXPECT_THAT(failing(batch, {.flatten = true}),
              AllOf(HasSubstr("'l'"), HasSubstr("a list of 1 elements after others of 2"),
                    HasSubstr("row 2"), HasSubstr("pad")));
  EXPECT_THAT(failing(batch, {}), AllOf(HasSubstr("'l'"), HasSubstr("flatten")));
  auto hole = batch_of({{"l", lists, {{1, 2}, nullptr}}});
  EXPECT_THAT(failing(hole, {.flatten = true}), AllOf(HasSubstr("a null"), HasSubstr("row 1")));
  auto inner_hole = batch_of({{"l", lists, {{1, 2}, {1, nullptr}}}});
  EXPECT_THAT(failing(inner_hole, {.flatten = true}),
              AllOf(HasSubstr("a null"), HasSubstr("row 1")));
  auto texts = batch_of({{"l", arrow::list(arrow::utf8()), {{"a"}}}});
  EXPECT_THAT(failing(texts, {.flatten = true}), AllOf(HasSubstr("'l'"), HasSubstr("string")));
  auto nested = batch_of({{"l", arrow::list(lists), {{{1}, {2}}}}});
  EXPECT_THAT(failing(nested, {.flatten = true}), AllOf(HasSubstr("'l'"), HasSubstr("list")));
  // The lists of each batch have one length, but those of all batches do not.
  Dataset parts = data::from_arrow(std::vector{batch->Slice(0, 2), batch->Slice(2)});
  EXPECT_THAT(
      message_of([&] { Concatenator({"l"}, {.flatten = true}).transform(parts).to_table(); }),
      AllOf(HasSubstr("'l'"), HasSubstr("elements after others of")));
  // A copy begins anew.
  Concatenator one({"l"}, {.flatten = true});
  one.transform_batch(batch->Slice(0, 2));
  EXPECT_THROW(one.transform_batch(batch->Slice(2)), Error);
  EXPECT_EQ(Concatenator(one).transform_batch(batch->Slice(2))->num_rows(), 1);
}

}  // namespace
}  // namespace manta::preprocess
