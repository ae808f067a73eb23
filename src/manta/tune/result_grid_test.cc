#include "manta/tune/result_grid.h"

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <cmath>

#include "manta/base/error_of_internal.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Result result_with(const std::string& name, const std::vector<Json>& losses) {
  Result result;
  result.config = name;
  for (const Json& loss : losses) result.metrics_history.push_back({{"loss", loss}});
  if (!losses.empty()) result.metrics = result.metrics_history.back();
  return result;
}

std::string best(const ResultGrid& grid, const BestResultOptions& options) {
  return grid.get_best_result(options).config;
}

TEST(ResultGridTest, TheScopeSaysWhatOfATrialCounts) {
  ResultGrid grid({result_with("falls", {9, 8, 7, 6, 5, 4, 3}), result_with("dips", {6, 1, 6}),
                   result_with("flat", {4.5, 4.5, 4.5, 4.5})},
                  "", "loss", "min");
  EXPECT_EQ(best(grid, {}), "falls");
  EXPECT_EQ(best(grid, {.scope = "all"}), "dips");
  EXPECT_EQ(best(grid, {.scope = "avg"}), "dips");  // 6, 4.33, 4.5
  EXPECT_EQ(best(grid, {.scope = "last-5-avg"}), "dips");
  EXPECT_EQ(best(grid, {.mode = "max", .scope = "all"}), "falls");
  EXPECT_EQ(best(grid, {.mode = "max", .scope = "avg"}), "falls");
  EXPECT_EQ(best(grid, {.mode = "max"}), "dips");
  // (7 + 6 + 5 + 4 + 3) / 5 = 5: only the last five count.
  ResultGrid two({result_with("falls", {100, 100, 7, 6, 5, 4, 3}), result_with("flat", {5.5})}, "",
                 "loss", "min");
  EXPECT_EQ(best(two, {.scope = "last-5-avg"}), "falls");
  EXPECT_EQ(best(two, {.scope = "last-10-avg"}), "flat");
}

TEST(ResultGridTest, WhatIsNoNumberIsLeftOutOrWorst) {
  ResultGrid grid(
      {result_with("nan", {1, nullptr}), result_with("text", {"a"}), result_with("good", {2})}, "",
      "loss", "min");
  EXPECT_EQ(best(grid, {}), "good");
  EXPECT_EQ(best(grid, {.filter_nan = false}), "good");
  EXPECT_EQ(best(grid, {.mode = "max", .filter_nan = false}), "good");
  EXPECT_EQ(best(grid, {.scope = "all"}), "nan") << "one of its reports is better";
  ResultGrid only({result_with("nan", {nullptr})}, "", "loss", "min");
  EXPECT_EQ(best(only, {.filter_nan = false}), "nan");
  EXPECT_THAT(message_of([&] { only.get_best_result(); }), HasSubstr("'loss'"));
}

TEST(ResultGridTest, SaysWhatIsMissing) {
  Result failed;
  failed.error = Error(ErrorKind::kUserCode, "out of luck");
  ResultGrid grid({failed}, "", "loss", "min");
  EXPECT_THAT(message_of([&] { grid.get_best_result(); }),
              AllOf(HasSubstr("none of the 1 trials reported anything"),
                    HasSubstr("1 of 1 failed, the first with: out of luck")));
  EXPECT_THAT(message_of([&] { ResultGrid({failed}, "", "", "").get_best_result(); }),
              HasSubstr("needs a metric and a mode"));
  EXPECT_THAT(message_of([&] { grid.get_best_result({.mode = "least"}); }),
              HasSubstr("mode must be min or max (was 'least')"));
  EXPECT_THAT(message_of([&] { grid.get_best_result({.scope = "first"}); }),
              HasSubstr("(was 'first')"));
}

TEST(ResultGridTest, ColumnsOfSeveralTypesAreTexts) {
  Result a, b;
  a.metrics = {{"x", 1}, {"y", 1}, {"z", true}, {"trial", 3}};
  b.metrics = {{"x", 2.5}, {"y", "text"}, {"z", nullptr}};
  a.config = {{"a/b", 1}, {"c", {{"d", nullptr}}}};
  auto table = ResultGrid({a, b}, "", "", "").get_dataframe();
  auto type = [&](const char* name) { return table->GetColumnByName(name)->type()->ToString(); };
  EXPECT_EQ(type("x"), "double");
  EXPECT_EQ(type("y"), "string");
  EXPECT_EQ(type("z"), "bool");
  EXPECT_EQ(type("metrics/trial"), "int64");
  EXPECT_EQ(type("config/a/b"), "int64");
  EXPECT_EQ(table->GetColumnByName("y")->GetScalar(0).ValueOrDie()->ToString(), "1");
  EXPECT_TRUE(table->ValidateFull().ok());
  EXPECT_EQ(ResultGrid().get_dataframe()->num_rows(), 0);
}

}  // namespace
}  // namespace manta
