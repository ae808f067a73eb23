// Features as float32.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include "manta/base/error_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/xgboost/float_rows_internal.h"

namespace manta::xgboost {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string warnings_of(const std::shared_ptr<arrow::DataType>& type,
                        const std::vector<Json>& batches, bool warns = true) {
  auto schema = arrow::schema({arrow::field("id", type)});
  std::vector<FeatureColumn> columns = {feature_column(*schema, "id")};
  FloatRows rows(columns, "data set 'train'", warns);
  testing::internal::CaptureStderr();
  int64_t first_row = 0;
  for (const Json& values : batches) {
    auto column = data::array_from_json(type, values);
    rows.append(*arrow::RecordBatch::Make(schema, column->length(), {column}), 0, column->length(),
                first_row);
    first_row += column->length();
  }
  return testing::internal::GetCapturedStderr();
}

TEST(FloatRowsTest, IntegersThatAreRoundedAreToldOfOnceForEachColumn) {
  constexpr int64_t kFirst = (1 << 24) + 1;
  for (const auto& type : {arrow::int32(), arrow::int64(), arrow::uint32(), arrow::uint64()}) {
    std::string text = warnings_of(type, {{1, kFirst - 1, nullptr}, {kFirst, 0}, {kFirst + 2}});
    EXPECT_THAT(text, AllOf(HasSubstr("the column 'id' of data set 'train' has 16777217 in row 3"),
                            HasSubstr("drop_columns"), Not(HasSubstr("16777219"))))
        << type->ToString();
  }
  EXPECT_THAT(warnings_of(arrow::int64(), {{INT64_MIN, -kFirst}}), HasSubstr("-16777217 in row 1"));
  EXPECT_THAT(warnings_of(arrow::fixed_size_list(arrow::int64(), 2), {{{1, 2}, {3, kFirst}}}),
              HasSubstr("in row 1"));
}

TEST(FloatRowsTest, WhatIsExactOrNoIntegerIsNotToldOf) {
  EXPECT_EQ(warnings_of(arrow::int64(), {{1 << 24, -(1 << 24), int64_t{3} << 40, INT64_MIN}}), "");
  EXPECT_EQ(warnings_of(arrow::uint64(), {{uint64_t{1} << 63, 0}}), "");
  EXPECT_EQ(warnings_of(arrow::float64(), {{0.1, 16777217.0}}), "");
  EXPECT_EQ(warnings_of(arrow::int64(), {{(1 << 24) + 1}}, false), "");
}

}  // namespace
}  // namespace manta::xgboost
