// Every preprocessor against Ray's of the same name (expected/make_preprocessors_expected.py).

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "manta/data/plain_columns_internal.h"
#include "manta/data/sources.h"
#include "manta/preprocess/learning.h"
#include "manta/preprocess/preprocess_fixture_internal.h"
#include "manta/preprocess/preprocessor.h"

namespace manta::preprocess {
namespace {

const Json& of_ray() {
  static const Json all = [] {
    std::ifstream file(MANTA_PREPROCESS_EXPECTED "/preprocessors.json");
    return Json::parse(file);
  }();
  return all;
}

std::shared_ptr<arrow::DataType> type_called(const std::string& name) {
  for (const auto& type : {arrow::float64(), arrow::float32(), arrow::int64(), arrow::int32(),
                           arrow::uint8(), arrow::utf8(), arrow::boolean()}) {
    if (type->ToString() == name) return type;
    if (name == "list<item: " + type->ToString() + ">") return arrow::list(type);
    if (name == "fixed_size_list<item: " + type->ToString() + ">[2]") {
      return arrow::fixed_size_list(type, 2);
    }
  }
  throw std::runtime_error(name);
}

std::shared_ptr<arrow::RecordBatch> table_of_ray(size_t place) {
  std::vector<TestColumn> columns;
  for (const auto& [name, column] : of_ray().at("tables").at(place).items()) {
    Json values = column.at("values");
    bool has_nan = false;
    for (auto& value : values) has_nan = has_nan || value == "NaN";
    if (has_nan) {  // which JSON does not have
      for (auto& value : values) value = value == "NaN" ? Json(-12345.5) : value;
    }
    columns.push_back({name, type_called(column.at("type")), values});
  }
  auto batch = batch_of(columns);
  for (int i = 0; i < batch->num_columns(); ++i) {
    if (batch->column(i)->type_id() != arrow::Type::DOUBLE) continue;
    auto values =
        const_cast<double*>(static_cast<const arrow::DoubleArray&>(*batch->column(i)).raw_values());
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      if (values[row] == -12345.5) values[row] = NAN;
    }
  }
  return batch;
}

// A value of a column as JSON; NaN is null.
Json value_at(const arrow::Array& column, int64_t row) {
  if (column.IsNull(row)) return nullptr;
  switch (column.type_id()) {
    case arrow::Type::DOUBLE: {
      double x = static_cast<const arrow::DoubleArray&>(column).Value(row);
      return std::isnan(x) ? Json() : Json(x);
    }
    case arrow::Type::FLOAT: {
      float x = static_cast<const arrow::FloatArray&>(column).Value(row);
      return std::isnan(x) ? Json() : Json(x);
    }
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(column).Value(row);
    case arrow::Type::INT64:
      return static_cast<const arrow::Int64Array&>(column).Value(row);
    case arrow::Type::INT32:
      return static_cast<const arrow::Int32Array&>(column).Value(row);
    case arrow::Type::UINT8:
      return static_cast<const arrow::UInt8Array&>(column).Value(row);
    case arrow::Type::STRING:
      return static_cast<const arrow::StringArray&>(column).GetString(row);
    case arrow::Type::LIST:
    case arrow::Type::FIXED_SIZE_LIST: {
      auto list = check(column.GetScalar(row), "a row");
      const auto& values = *static_cast<const arrow::BaseListScalar&>(*list).value;
      Json all = Json::array();
      for (int64_t i = 0; i < values.length(); ++i) all.push_back(value_at(values, i));
      return all;
    }
    default:
      return "? " + column.type()->ToString();
  }
}

void expect_value(const Json& value, const Json& expected, const std::string& where) {
  if (expected.is_array() && value.is_array()) {
    ASSERT_EQ(value.size(), expected.size()) << where;
    for (size_t i = 0; i < value.size(); ++i) expect_value(value[i], expected[i], where);
  } else if (expected.is_number() && value.is_number()) {
    // Ray sums in another order, and rounds to float32 in between.
    double scale = std::max(1., std::abs(expected.get<double>()));
    ASSERT_NEAR(value.get<double>(), expected.get<double>(), 1e-6 * scale) << where;
    bool exact = value.is_number_integer() && expected.is_number_integer();
    if (exact) {
      ASSERT_EQ(value, expected) << where;
    }
  } else {
    ASSERT_EQ(value, expected) << where;
  }
}

void expect_columns(const arrow::RecordBatch& batch, const Json& expected,
                    const std::string& where) {
  for (const auto& [name, values] : expected.items()) {
    auto column = batch.GetColumnByName(name);
    ASSERT_TRUE(column) << name << ", " << where;
    column = data::plain_column(column);
    ASSERT_EQ(static_cast<size_t>(column->length()), values.size()) << where;
    for (size_t row = 0; row < values.size(); ++row) {
      expect_value(value_at(*column, static_cast<int64_t>(row)), values[row],
                   str(where, ", column ", name, ", row ", row));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

Dataset in_pieces(const std::shared_ptr<arrow::RecordBatch>& batch, int64_t rows) {
  std::vector<std::shared_ptr<arrow::RecordBatch>> pieces;
  for (int64_t i = 0; i < batch->num_rows(); i += rows) pieces.push_back(batch->Slice(i, rows));
  return data::from_arrow(pieces);
}

AnyPreprocessor preprocessor_of(const Json& one) {
  return AnyPreprocessor::from_json(
      {{"version", 1}, {"name", one.at("name")}, {"state", one.at("state")}}, "a case");
}

class ExpectedTest : public testing::TestWithParam<const char*> {};

TEST_P(ExpectedTest, IsThatOfRay) {
  int cases = 0;
  for (const Json& one : of_ray().at("cases")) {
    if (one.at("name") != GetParam()) continue;
    ++cases;
    std::string where = str(one.at("name"), " ", one.at("state").dump());
    auto learn_from = table_of_ray(one.at("fit")), rows = table_of_ray(one.at("transform"));
    auto preprocessor = preprocessor_of(one);
    if (one.contains("error")) {
      auto fit_and_transform = [&] {
        preprocessor->fit(in_pieces(learn_from, 7));
        preprocessor->transform_batch(rows);
      };
      EXPECT_THROW(fit_and_transform(), Error) << where << " for Ray's " << one.at("error");
      continue;
    }
    preprocessor->fit(in_pieces(learn_from, 7));
    auto streamed = all_of(preprocessor->transform(in_pieces(rows, 3)));
    auto names = streamed->schema()->field_names();
    for (const auto& name : one.at("columns")) EXPECT_THAT(names, testing::Contains(name)) << where;
    EXPECT_EQ(names.size(), one.at("columns").size()) << where;
    expect_columns(*streamed, one.at("expected"), where);
    if (HasFatalFailure()) return;
    // The same from a file, and row by row.
    auto kept = AnyPreprocessor::from_json(Json::parse(preprocessor->to_json().dump()), "a file");
    EXPECT_EQ(kept->to_json(), preprocessor->to_json());
    for (int64_t row = 0; row < rows->num_rows(); ++row) {
      auto served = kept->transform_batch(rows->Slice(row, 1));
      ASSERT_TRUE(served->schema()->Equals(*streamed->schema())) << where;
      ASSERT_TRUE(served->Equals(*streamed->Slice(row, 1), false,
                                 arrow::EqualOptions::Defaults().nans_equal(true)))
          << where << ", row " << row;
    }
    if (one.contains("inverse")) {
      const auto& invertible = dynamic_cast<const Invertible&>(*kept);
      Json column = one.at("state").at("columns").at(0);
      auto back = all_of(invertible.inverse_transform(preprocessor->transform(in_pieces(rows, 3))));
      expect_columns(*back, {{column, one.at("inverse").at(column)}}, where + ", inverse");
    }
  }
  EXPECT_GT(cases, 0);
}

INSTANTIATE_TEST_SUITE_P(Of, ExpectedTest,
                         testing::Values("StandardScaler", "MinMaxScaler", "MaxAbsScaler",
                                         "RobustScaler", "Normalizer", "PowerTransformer",
                                         "SimpleImputer", "OrdinalEncoder", "OneHotEncoder",
                                         "MultiHotEncoder", "LabelEncoder", "Categorizer",
                                         "UniformKBinsDiscretizer", "CustomKBinsDiscretizer",
                                         "Tokenizer", "CountVectorizer", "HashingVectorizer",
                                         "FeatureHasher", "Concatenator", "Chain"),
                         [](const auto& param) { return std::string(param.param); });

// Any cut into batches, and any number of threads: the same state, to the last bit.
TEST_P(ExpectedTest, LearnsTheSameFromAnyCut) {
  for (const Json& one : of_ray().at("cases")) {
    if (one.at("name") != GetParam() || one.contains("error")) continue;
    auto rows = table_of_ray(one.at("fit"));
    std::string first;
    for (int64_t piece : {1, 3, 8, 1000}) {
      for (int threads : {1, 2, 5}) {
        auto preprocessor = preprocessor_of(one);
        internal::fit_preprocessor(*preprocessor, in_pieces(rows, piece), threads);
        std::string learned = preprocessor->to_json().dump();
        if (first.empty()) first = learned;
        ASSERT_EQ(learned, first) << piece << " rows a batch, " << threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace manta::preprocess
