#include "manta/preprocess/scalers.h"

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <random>

#include "manta/preprocess/fold_batches.h"
#include "manta/preprocess/numbers_internal.h"
#include "manta/preprocess/preprocess_fixture_internal.h"

namespace manta::preprocess {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const Json& scikit_learn() {
  static const Json cases = Json::parse(
#include "manta/preprocess/expected/scalers.inc"
  );
  return cases;
}

std::shared_ptr<arrow::DataType> type_named(const std::string& name) {
  for (const auto& type : {arrow::int8(), arrow::uint16(), arrow::int32(), arrow::int64(),
                           arrow::float32(), arrow::float64(), arrow::boolean()}) {
    if (type->ToString() == name || (name == "float32" && type->id() == arrow::Type::FLOAT) ||
        (name == "float64" && type->id() == arrow::Type::DOUBLE)) {
      return type;
    }
  }
  throw std::runtime_error(name);
}

std::shared_ptr<arrow::RecordBatch> batch_of_cases() {
  std::vector<TestColumn> columns;
  for (const Json& one : scikit_learn()) {
    columns.push_back({one["name"], type_named(one["type"]), one["values"]});
  }
  return batch_of(columns);
}

std::vector<std::string> names_of_cases() {
  std::vector<std::string> names;
  for (const Json& one : scikit_learn()) names.push_back(one["name"]);
  return names;
}

// Equal except for rounding, at the size of `scale`.
void expect_close(double value, double expected, double scale, const std::string& what) {
  EXPECT_NEAR(value, expected, 1e-12 * std::max(std::abs(scale), 1e-300)) << what;
}

void expect_column(const arrow::RecordBatch& batch, const std::string& name, const Json& expected,
                   double scale) {
  auto values = doubles(batch, name);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(batch.GetColumnByName(name)->IsNull(static_cast<int64_t>(i)), expected[i].is_null());
    if (!expected[i].is_null()) {
      expect_close(values[i], expected[i], scale, str(name, ", row ", i));
    }
  }
}

TEST(ScalersTest, StandardScalerIsThatOfScikitLearn) {
  data::ParquetFolder folder;
  StandardScaler scaler(names_of_cases());
  auto scaled = all_of(scaler.fit_transform(dataset_of(folder, *batch_of_cases(), 50)));
  Json stats = scaler.stats();
  for (const Json& one : scikit_learn()) {
    std::string name = one["name"];
    double std = one["std"], mean = one["mean"];
    expect_close(stats[str("mean(", name, ")")], mean, mean, "mean of " + name);
    if (name == "constant") {
      EXPECT_EQ(stats[str("mean(", name, ")")], 0.1);
      EXPECT_EQ(stats[str("std(", name, ")")], 0);
      for (double value : doubles(*scaled, name)) EXPECT_TRUE(std::isnan(value) || value == 0);
      continue;
    }
    expect_close(stats[str("std(", name, ")")], std, std, "std of " + name);
    // The effect of rounding the mean on each value, if all are far from 0.
    double scale = std == 0 ? 1 : 1 + std::abs(mean) / std;
    expect_column(*scaled, name, one["standard"], 100 * scale);
  }
}

// Rounding the mean of each batch would cost as much as the values differ.
TEST(ScalersTest, StandardDeviationsOfLargeNumbersThatDifferLittleAreExact) {
  data::ParquetFolder folder;
  constexpr int kRows = 3000;
  std::mt19937 random(7);
  Json column = Json::array(), ids = Json::array();
  double larger = 0, mean_of_ids = (kRows - 1) / 2.;
  for (int i = 0; i < kRows; ++i) {
    bool is_larger = random() % 3 == 0;
    larger += is_larger;
    column.push_back(1e15 + (is_larger ? 0.125 : 0));
    ids.push_back(1e12 + i);
  }
  Dataset dataset = dataset_of(
      folder, *batch_of({{"x", arrow::float64(), column}, {"id", arrow::float64(), ids}}), 37);
  StandardScaler scaler({"x", "id"});
  scaler.fit(dataset);
  double share = larger / kRows;
  double std = 0.125 * std::sqrt(share * (1 - share));
  EXPECT_NEAR(scaler.stats()["std(x)"].get<double>(), std, 1e-12 * std);
  double std_of_ids = std::sqrt((double{kRows} * kRows - 1) / 12);
  EXPECT_NEAR(scaler.stats()["std(id)"].get<double>(), std_of_ids, 1e-12 * std_of_ids);
  EXPECT_EQ(scaler.stats()["mean(id)"], 1e12 + mean_of_ids);
}

TEST(ScalersTest, MinMaxScalerIsThatOfScikitLearn) {
  data::ParquetFolder folder;
  MinMaxScaler scaler(names_of_cases());
  auto scaled = all_of(scaler.fit_transform(dataset_of(folder, *batch_of_cases(), 64)));
  Json stats = scaler.stats();
  for (const Json& one : scikit_learn()) {
    std::string name = one["name"];
    EXPECT_EQ(stats[str("min(", name, ")")], one["min"]);
    EXPECT_EQ(stats[str("max(", name, ")")], one["max"]);
    double range = one["max"].get<double>() - one["min"].get<double>();
    double scale = range == 0 ? 1 : 1 + std::abs(one["min"].get<double>()) / range;
    expect_column(*scaled, name, one["minmax"], 100 * scale);
  }
}

TEST(ScalersTest, ADataSetAndABatchGiveTheSameBits) {
  data::ParquetFolder folder;
  auto batch = batch_of_cases();
  Dataset dataset = dataset_of(folder, *batch, 50);
  std::vector<AnyPreprocessor> scalers = {StandardScaler(names_of_cases()),
                                          MinMaxScaler(names_of_cases())};
  for (auto& scaler : scalers) {
    auto streamed = all_of(scaler->fit_transform(dataset));
    auto kept = AnyPreprocessor::from_json(Json::parse(scaler->to_json().dump()), "a test");
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      auto served = kept->transform_batch(batch->Slice(row, 1));
      ASSERT_TRUE(served->schema()->Equals(streamed->schema()));
      for (int i = 0; i < served->num_columns(); ++i) {
        const auto& one = static_cast<const arrow::DoubleArray&>(*served->column(i));
        const auto& all = static_cast<const arrow::DoubleArray&>(*streamed->column(i));
        ASSERT_EQ(one.IsNull(0), all.IsNull(row));
        if (one.IsNull(0)) continue;
        double a = one.Value(0), b = all.Value(row);
        ASSERT_EQ(std::memcmp(&a, &b, sizeof(a)), 0) << a << " and " << b;
      }
    }
  }
}

TEST(ScalersTest, OtherColumnsPassAndOrderStays) {
  data::ParquetFolder folder;
  auto batch = batch_of({{"text", arrow::utf8(), {"a", nullptr, "c"}},
                         {"x", arrow::int64(), {1, 2, 3}},
                         {"label", arrow::boolean(), {true, false, true}}});
  Dataset dataset = dataset_of(folder, *batch, 2);
  MinMaxScaler scaler({"x"});
  Dataset scaled = scaler.fit_transform(dataset);
  EXPECT_THAT(scaled.columns(), ElementsAre("text", "x", "label"));
  EXPECT_EQ(scaled.schema()->field(1)->type()->id(), arrow::Type::DOUBLE);
  EXPECT_THAT(doubles(*all_of(scaled), "x"), ElementsAre(0, 0.5, 1));
  EXPECT_EQ(scaled.filter(col("x") >= 0.5).count(), 2);
  EXPECT_EQ(scaled.count(), 3);
  EXPECT_EQ(all_of(scaled.select_columns({"label"}))->num_columns(), 1);
  EXPECT_THAT(scaled.explain(), HasSubstr("transform(MinMaxScaler(x))"));
  // Values beyond those it has learned from.
  auto beyond = batch_of({{"x", arrow::float32(), {-1, 5, nullptr}}});
  EXPECT_THAT(doubles(*scaler.transform_batch(beyond), "x"), ElementsAre(-1, 2, testing::IsNan()));
}

TEST(ScalersTest, NaNIsLeftOutAndStays) {
  data::ParquetFolder folder;
  arrow::DoubleBuilder builder;
  ASSERT_TRUE(builder.AppendValues({1, NAN, 3}).ok());
  auto batch = arrow::RecordBatch::Make(arrow::schema({arrow::field("x", arrow::float64())}), 3,
                                        {builder.Finish().ValueOrDie()});
  Dataset dataset = dataset_of(folder, *batch, 10);
  StandardScaler scaler({"x"});
  auto scaled = all_of(scaler.fit_transform(dataset));
  EXPECT_THAT(doubles(*scaled, "x"), ElementsAre(-1, testing::IsNan(), 1));
  EXPECT_EQ(scaled->column(0)->null_count(), 0);
}

TEST(ScalersTest, EncodedAndExactNumbersAreNumbers) {
  auto decimals = data::array_from_json(arrow::decimal128(5, 2), {"1.50", "2.50", nullptr});
  auto codes = data::array_from_json(arrow::int32(), {0, 1, 0});
  auto dictionary = check(
      arrow::DictionaryArray::FromArrays(codes, data::array_from_json(arrow::uint8(), {10, 30})),
      "a test column");
  auto none = check(arrow::MakeArrayOfNull(arrow::null(), 3), "a test column");
  auto batch =
      arrow::RecordBatch::Make(arrow::schema({arrow::field("decimal", decimals->type()),
                                              arrow::field("dictionary", dictionary->type()),
                                              arrow::field("none", none->type())}),
                               3, {decimals, dictionary, none});
  auto scaler = MinMaxScaler::from_state({{"columns", {"decimal", "dictionary", "none"}},
                                          {"min", {1.5, 10, 0}},
                                          {"max", {2.5, 30, 1}}});
  auto scaled = scaler.transform_batch(batch);
  EXPECT_THAT(doubles(*scaled, "decimal"), ElementsAre(0, 1, testing::IsNan()));
  EXPECT_THAT(doubles(*scaled, "dictionary"), ElementsAre(0, 1, 0));
  EXPECT_EQ(scaled->GetColumnByName("none")->null_count(), 3);
}

TEST(ScalersTest, RowsThatFiltersRemovedAreNotLearnedFrom) {
  data::ParquetFolder folder;
  auto batch = batch_of({{"x", arrow::int64(), {1, 1000, 3}}});
  MinMaxScaler scaler({"x"});
  scaler.fit(dataset_of(folder, *batch, 10).filter(col("x") < 100));
  EXPECT_EQ(scaler.stats(), Json({{"min(x)", 1}, {"max(x)", 3}}));
}

TEST(ScalersTest, WhatCannotBeScaledIsAnErrorThatNamesIt) {
  data::ParquetFolder folder;
  auto batch = batch_of({{"text", arrow::utf8(), {"a", "b"}},
                         {"none", arrow::float64(), {nullptr, nullptr}},
                         {"huge", arrow::float64(), {-1.7e308, 1.7e308}},
                         {"tiny", arrow::float64(), {1e-200, 2e-200}},
                         {"x", arrow::int64(), {1, 2}}});
  Dataset dataset = dataset_of(folder, *batch, 10);
  auto fitting = [&](std::vector<std::string> columns, const Dataset& on) {
    return error_of([&] { StandardScaler(std::move(columns)).fit(on); });
  };
  Error missing = fitting({"x", "y", "z"}, dataset);
  EXPECT_EQ(missing.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(missing.what(), AllOf(HasSubstr("StandardScaler"), HasSubstr("'y', 'z'"),
                                    HasSubstr("text, none, huge, tiny, x")));
  EXPECT_THAT(fitting({"text"}, dataset).what(),
              AllOf(HasSubstr("'text'"), HasSubstr("string"), HasSubstr("no numbers")));
  EXPECT_THAT(fitting({"none"}, dataset).what(), HasSubstr("'none' has nothing but nulls"));
  EXPECT_THAT(fitting({"huge"}, dataset).what(), HasSubstr("too far apart"));
  EXPECT_THAT(message_of([&] { MinMaxScaler({"huge"}).fit(dataset); }), HasSubstr("too far apart"));
  EXPECT_THAT(fitting({"x"}, dataset.filter(col("x") > 5)).what(), HasSubstr("without rows"));
  EXPECT_THAT(fitting({}, dataset).what(), HasSubstr("no columns"));
  EXPECT_THAT(fitting({"x", "x"}, dataset).what(), HasSubstr("twice"));

  StandardScaler scaler({"x"});
  Error early = error_of([&] { scaler.transform(dataset); });
  EXPECT_EQ(early.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(early.what(), AllOf(HasSubstr("StandardScaler(x)"), HasSubstr("not fitted")));
  EXPECT_THAT(message_of([&] { scaler.transform_batch(batch); }), HasSubstr("not fitted"));
  EXPECT_THAT(message_of([&] { scaler.stats(); }), HasSubstr("not fitted"));
  scaler.fit(dataset);
  EXPECT_THAT(message_of([&] { scaler.transform(dataset.drop_columns({"x"})); }),
              HasSubstr("'x' are missing"));
  Json stats = scaler.stats();
  EXPECT_THAT(message_of([&] { scaler.fit(dataset.drop_columns({"x"})); }), HasSubstr("'x'"));
  EXPECT_EQ(scaler.stats(), stats) << "a failed fit changes nothing";
}

// Names that Ray had, and a near match where a column is misspelt.
TEST(StandardScalerTest, IsAlsoCalledScaler) {
  auto numbers = data::from_items({{{"fare", 1}}, {{"fare", 3}}});
  Scaler scaler({"fare"});
  scaler.fit(numbers);
  EXPECT_EQ(scaler.name(), "StandardScaler");
  StandardScaler same({"fare"});
  same.fit(numbers);
  EXPECT_EQ(scaler.stats(), same.stats());
  EXPECT_THAT(message_of([&] { Scaler({"fair"}).fit(numbers); }),
              AllOf(HasSubstr("'fair'"), HasSubstr("did you mean 'fare'?")));
}

}  // namespace
}  // namespace manta::preprocess
