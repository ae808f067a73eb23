// Dates, times, durations, decimals and booleans as categories, against Ray's preprocessors of the
// same names (expected/make_times_expected.py).

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <gmock/gmock.h>

#include <fstream>

#include "manta/data/expression_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/sources.h"
#include "manta/preprocess/encoders.h"
#include "manta/preprocess/preprocess_fixture_internal.h"
#include "manta/preprocess/preprocessor.h"
#include "manta/preprocess/simple_imputer.h"

namespace manta::preprocess {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using TypePtr = std::shared_ptr<arrow::DataType>;

TypePtr time_type(const std::string& name) {
  if (name == "date32[day]") return arrow::date32();
  if (name == "date64[ms]") return arrow::date64();
  return data::type_by_name(name, "a case");
}

// Times are integers of their unit.
TypePtr stored_as(const arrow::DataType& type) {
  if (arrow::is_decimal(type.id()) || type.id() == arrow::Type::BOOL) return nullptr;
  return type.bit_width() == 32 ? arrow::int32() : arrow::int64();
}

std::shared_ptr<arrow::Array> time_column(const TypePtr& type, const Json& values) {
  auto stored = stored_as(*type);
  auto column = data::array_from_json(stored ? stored : type, values);
  return stored ? check(column->View(type), "a test column") : column;
}

data::BatchPtr time_batch(const TypePtr& type, const Json& values) {
  auto column = time_column(type, values);
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("c", column->type())}),
                                  column->length(), {column});
}

Json state_for(const std::string& name) {
  Json state = {{"columns", {"c"}}};
  if (name == "OrdinalEncoder") state["encode_lists"] = true;
  if (name == "SimpleImputer") state["strategy"] = "most_frequent";
  return state;
}

// Compares a column with `expected`, in the type in which `expected` is written.
void expect_times(std::shared_ptr<arrow::Array> column, const TypePtr& type, const Json& expected) {
  data::start_compute();
  column = data::plain_column(column);
  if (column->type_id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& vectors = static_cast<const arrow::FixedSizeListArray&>(*column);
    Json all = Json::array();
    for (const Json& row : expected) all.insert(all.end(), row.begin(), row.end());
    auto values = check(arrow::compute::Cast(*vectors.Flatten().ValueOrDie(), arrow::int64()), "");
    EXPECT_TRUE(values->Equals(data::array_from_json(arrow::int64(), all))) << values->ToString();
    return;
  }
  auto wanted = column->type()->Equals(*arrow::int64())
                    ? data::array_from_json(arrow::int64(), expected)
                    : time_column(type, expected);
  auto same = check(arrow::compute::Cast(*column, wanted->type()), "comparing");
  EXPECT_TRUE(same->Equals(wanted)) << same->ToString() << wanted->ToString();
}

TEST(TimesTest, AreCategoriesAsInRay) {
  std::ifstream file(MANTA_PREPROCESS_EXPECTED "/times.json");
  int cases = 0;
  for (const Json& one : Json::parse(file)) {
    ++cases;
    std::string name = one["name"];
    SCOPED_TRACE(
        str(name, " of ", one["column"], ": ", one["type"], " and ", one["transform_type"]));
    auto type = time_type(one["type"]), other = time_type(one["transform_type"]);
    auto learn_from = time_batch(type, one["fit"]), rows = time_batch(other, one["transform"]);
    auto preprocessor = AnyPreprocessor::from_json(
        {{"version", 1}, {"name", name}, {"state", state_for(name)}}, "a case");
    preprocessor->fit(data::from_arrow(std::vector{learn_from->Slice(0, 5), learn_from->Slice(5)}));
    expect_times(preprocessor->transform_batch(rows)->column(0), other, one["expected"]);
    auto kept = AnyPreprocessor::from_json(Json::parse(preprocessor->to_json().dump()), "a file");
    EXPECT_EQ(kept->to_json(), preprocessor->to_json());
    EXPECT_TRUE(kept->transform_batch(rows)->Equals(*preprocessor->transform_batch(rows)));
    if (auto* invertible = dynamic_cast<const Invertible*>(&*kept)) {
      auto back = invertible->inverse_transform_batch(kept->transform_batch(learn_from));
      EXPECT_TRUE(back->Equals(*learn_from)) << back->ToString();
    }
  }
  EXPECT_GT(cases, 100);
}

TEST(TimesTest, ElementsOfListsAreCategoriesAndWholeListsAreNot) {
  auto days = data::array_from_json(arrow::list(arrow::date32()), {{5, 3, 5}, Json::array(), {9}});
  auto batch =
      arrow::RecordBatch::Make(arrow::schema({arrow::field("c", days->type())}), 3, {days});
  Dataset rows = data::from_arrow(std::vector{batch});
  MultiHotEncoder hot({"c"});
  hot.fit(rows);
  auto counts =
      std::static_pointer_cast<arrow::FixedSizeListArray>(hot.transform_batch(batch)->column(0));
  EXPECT_TRUE(
      counts->values()->Equals(data::array_from_json(arrow::int64(), {1, 2, 0, 0, 0, 0, 0, 0, 1})));
  OrdinalEncoder ordinal({"c"});
  ordinal.fit(rows);
  EXPECT_TRUE(ordinal.transform_batch(batch)->column(0)->Equals(
      data::array_from_json(arrow::list(arrow::int64()), {{1, 0, 1}, Json::array(), {2}})));
  OneHotEncoder whole({"c"});
  EXPECT_THAT(message_of([&] { whole.fit(rows); }),
              AllOf(HasSubstr("OneHotEncoder"), HasSubstr("list<item: date32[day]>"),
                    HasSubstr("MultiHotEncoder")));
}

TEST(TimesTest, TimesOfAnotherKindAreRefused) {
  auto fitted = [](const std::string& type) {
    auto encoder = std::make_shared<OrdinalEncoder>(std::vector<std::string>{"c"});
    encoder->fit(data::from_arrow(std::vector{time_batch(time_type(type), {0, 86400000})}));
    return encoder;
  };
  const std::pair<const char*, const char*> cases[] = {
      {"date64", "timestamp[ms]"},       {"timestamp[ms]", "timestamp[ms, tz=UTC]"},
      {"timestamp[ms]", "duration[ms]"}, {"duration[ms]", "time32[ms]"},
      {"timestamp[ms]", "int64"},        {"int64", "timestamp[ms]"},
      {"date64", "decimal128(10, 2)"},
  };
  for (const auto& [learned, other] : cases) {
    auto encoder = fitted(learned);
    auto type = time_type(other);
    auto rows = time_batch(type, arrow::is_decimal(type->id()) ? Json{"1.00"} : Json{0});
    EXPECT_THAT(message_of([&] { encoder->transform_batch(rows); }),
                AllOf(HasSubstr("'c'"), HasSubstr(learned), HasSubstr(other)));
  }
}

TEST(TimesTest, DamagedCategoriesAreErrors) {
  OrdinalEncoder encoder({"c"});
  encoder.fit(data::from_arrow(std::vector{time_batch(arrow::date32(), {1, 2})}));
  auto read = [&](const Json& type, const Json& values) {
    Json json = encoder.to_json();
    json["state"]["categories"][0] = {{"type", type}, {"values", values}};
    AnyPreprocessor::from_json(json, "a file");
  };
  read("date32", {1, 5});
  read("decimal128(4, 2)", {"9.5", "-1"});
  for (const auto& [type, values] : std::vector<std::pair<Json, Json>>{
           {"date32", {int64_t{1} << 31}},
           {"date32", {"2024-05-01"}},
           {"date32", {1, 1}},
           {"timestamp[us]", {1.5}},
           {"timestamp[us]", {uint64_t{1} << 63}},
           {"decimal128(4, 2)", {"9.50"}},
           {"decimal128(4, 2)", {"9.555"}},
           {"decimal128(4, 2)", {"955.5"}},
           {"decimal128(4, 2)", {"x"}},
           {"decimal128(4, 2)", {9}},
           {"timestamp", {1}},
           {"list<item: date32>", {1}},
       }) {
    EXPECT_THROW(read(type, values), Error) << type << " " << values;
  }
}

TEST(TimesTest, ImputersFillOtherUnitsExactlyOrNotAtAll) {
  SimpleImputer imputer({"c"}, {.strategy = "most_frequent"});
  imputer.fit(data::from_arrow(
      std::vector{time_batch(arrow::timestamp(arrow::TimeUnit::MILLI), {1500, 1500, nullptr, 1})}));
  auto filled = [&](const TypePtr& type) {
    return imputer.transform_batch(time_batch(type, {nullptr, 7}))->column(0);
  };
  auto micro = arrow::timestamp(arrow::TimeUnit::MICRO);
  EXPECT_TRUE(filled(micro)->Equals(time_column(micro, {1'500'000, 7})));
  for (const TypePtr& type : {arrow::timestamp(arrow::TimeUnit::SECOND), arrow::int64(),
                              arrow::timestamp(arrow::TimeUnit::MILLI, "UTC")}) {
    EXPECT_THAT(message_of([&] { filled(type); }),
                AllOf(HasSubstr("'c'"), HasSubstr(type->ToString()), HasSubstr("1500")));
  }
  SimpleImputer constant({"c"}, {.strategy = "constant", .fill_value = "1970-01-03"});
  EXPECT_TRUE(constant.transform_batch(time_batch(arrow::date32(), {nullptr, 7}))
                  ->column(0)
                  ->Equals(time_column(arrow::date32(), {2, 7})));
  SimpleImputer wrong({"c"}, {.strategy = "constant", .fill_value = "yesterday"});
  EXPECT_THAT(message_of([&] { wrong.transform_batch(time_batch(arrow::date32(), {nullptr})); }),
              HasSubstr("yesterday"));
}

}  // namespace
}  // namespace manta::preprocess
