// Against XGBoost's Python package on the same rows: expected/make_predictions.py.

#include <gmock/gmock.h>

#include <cmath>

#include "manta/predict/predictor_factory.h"
#include "manta/xgboost/xgboost_fixture_internal.h"
#include "manta/xgboost/xgboost_predictor.h"

namespace manta {
namespace {

struct ExpectedPredictions {
  std::string name, label, params, metric;
  double value;  // of the metric, after the last round
  std::vector<float> predictions;
};

void PrintTo(const ExpectedPredictions& expected, std::ostream* out) { *out << expected.name; }

const ExpectedPredictions kExpected[] = {
#include "manta/xgboost/expected/predictions.inc"
};

constexpr int64_t kTestRows = 114;

// The breast cancer table with the label that the script makes, and its missing values.
std::shared_ptr<arrow::RecordBatch> table_of(const std::string& label) {
  auto all = check(breast_cancer().to_table()->CombineChunksToBatch(), "the table");
  std::string made_of = label == "class" ? "mean texture" : label == "number" ? "mean area" : "";
  arrow::DoubleBuilder labels, radius;
  auto number = [&](const std::string& column, int64_t row) {
    return static_cast<const arrow::DoubleArray&>(*all->GetColumnByName(column)).Value(row);
  };
  for (int64_t i = 0; i < all->num_rows(); ++i) {
    check(i % 7 == 3 ? radius.AppendNull() : radius.Append(number("worst radius", i)), "radius");
    if (made_of.empty()) continue;
    double from = number(made_of, i);
    check(labels.Append(label == "number" ? from / 100
                        : from <= 17      ? 0
                        : from <= 21      ? 1
                                          : 2),
          "label");
  }
  auto replace = [&](const std::string& name, const std::shared_ptr<arrow::Array>& column) {
    all = check(all->SetColumn(all->schema()->GetFieldIndex(name),
                               arrow::field(name, column->type()), column),
                "a column");
  };
  replace("worst radius", check(radius.Finish(), "radius"));
  if (made_of.empty()) return all;
  all = check(all->RemoveColumn(all->schema()->GetFieldIndex("target")), "no target");
  all = check(all->RemoveColumn(all->schema()->GetFieldIndex(made_of)), "no source");
  return check(all->AddColumn(0, label, check(labels.Finish(), "label")), "a label");
}

std::vector<float> numbers_of(const arrow::RecordBatch& batch) {
  auto column = batch.GetColumnByName("predictions");
  if (column->type_id() == arrow::Type::FIXED_SIZE_LIST) {
    column = static_cast<const arrow::FixedSizeListArray&>(*column).values();
  }
  const auto& floats = static_cast<const arrow::FloatArray&>(*column);
  return {floats.raw_values(), floats.raw_values() + floats.length()};
}

class XGBoostExpected : public testing::TestWithParam<ExpectedPredictions> {};
INSTANTIATE_TEST_SUITE_P(Cases, XGBoostExpected, testing::ValuesIn(kExpected),
                         [](const auto& info) { return info.param.name; });

// On so few rows the workers' quantiles together are those of all rows, so that each number of
// workers finds the same trees. Only the rounding of sums of doubles, in another order, may differ:
// that is far below the tolerance, some units in the last place of a float32.
TEST_P(XGBoostExpected, EachNumberOfWorkersPredictsAsPythonDoes) {
  const ExpectedPredictions& expected = GetParam();
  XGBoostRuns runs;
  auto table = table_of(expected.label);
  auto train = table->Slice(0, table->num_rows() - kTestRows);
  for (int workers : {1, 2, 4}) {
    auto options = runs.options(workers, {{"train", data::from_arrow(std::vector{train})}});
    options.params = Json::parse(expected.params);
    options.label_column = expected.label;
    options.num_boost_round = 15;
    Result result = XGBoostTrainer(options).fit();
    auto predictor = XGBoostPredictor::from_checkpoint(result.checkpoint);
    auto predictions = numbers_of(*predictor.predict(table->Slice(table->num_rows() - kTestRows)));
    ASSERT_EQ(predictions.size(), expected.predictions.size());
    for (size_t i = 0; i < predictions.size(); ++i) {
      ASSERT_NEAR(predictions[i], expected.predictions[i], 1e-6 * std::abs(expected.predictions[i]))
          << workers << " workers, number " << i;
    }
    // The tolerance is relative, like that of the predictions: another processor gives other last
    // digits.
    EXPECT_NEAR(result.metrics.at(expected.metric).get<double>(), expected.value,
                1e-6 * std::abs(expected.value));
  }
}

// On more rows the workers' quantiles are approximate, and differ from those of one worker: trees
// may differ, but not their quality.
TEST(XGBoostWorkers, LearnAsWellTogetherAsOneAlone) {
  constexpr int kRows = 60'000;
  arrow::DoubleBuilder x, y;
  arrow::BooleanBuilder target;
  uint64_t state = 1;
  auto random = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  for (int i = 0; i < kRows; ++i) {
    double a = random(), b = random();
    check(x.Append(a), "x");
    check(y.Append(b), "y");
    check(target.Append(random() < a * b), "target");
  }
  auto rows = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("x", arrow::float64()), arrow::field("y", arrow::float64()),
                     arrow::field("target", arrow::boolean())}),
      kRows, {check(x.Finish(), "x"), check(y.Finish(), "y"), check(target.Finish(), "target")});
  XGBoostRuns runs;
  auto loss = [&](int workers) {
    auto options = runs.options(workers, {{"train", data::from_arrow(std::vector{rows})}});
    return XGBoostTrainer(options).fit().metrics.at("train-logloss").get<double>();
  };
  double alone = loss(1);
  EXPECT_LT(alone, 0.5);
  EXPECT_NEAR(loss(4), alone, 0.01 * alone);
}

}  // namespace
}  // namespace manta
