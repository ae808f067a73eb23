#include "manta/torch/torch_batches.h"

#include <arrow/api.h>
#include <gmock/gmock.h>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Columns = std::vector<std::pair<std::string, std::shared_ptr<arrow::Array>>>;

std::shared_ptr<arrow::RecordBatch> batch_of(const Columns& columns) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [name, array] : columns) {
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), arrays[0]->length(), arrays);
}

// Values of any type that has numbers: nullopt is a null.
template <class Builder, class T>
std::shared_ptr<arrow::Array> array_of(const std::shared_ptr<arrow::DataType>& type,
                                       const std::vector<std::optional<T>>& values) {
  Builder builder(type, arrow::default_memory_pool());
  for (const auto& value : values) check(value ? builder.Append(*value) : builder.AppendNull(), "");
  return check(builder.Finish(), "test data");
}
std::shared_ptr<arrow::Array> int64s(const std::vector<std::optional<int64_t>>& values) {
  return array_of<arrow::Int64Builder>(arrow::int64(), values);
}
std::shared_ptr<arrow::Array> doubles(const std::vector<std::optional<double>>& values) {
  return array_of<arrow::DoubleBuilder>(arrow::float64(), values);
}

constexpr int64_t kLargeId = (int64_t{1} << 53) + 1;  // not even a double has it

TEST(TorchBatch, ColumnsKeepTheirTypes) {
  struct Case {
    std::shared_ptr<arrow::Array> array;
    torch::Dtype dtype;
    torch::Tensor expected;
  };
  auto timestamps = arrow::timestamp(arrow::TimeUnit::MICRO);
  auto halves = array_of<arrow::HalfFloatBuilder, uint16_t>(arrow::float16(), {0x3c00, 0xc100});
  std::vector<Case> cases = {
      {array_of<arrow::Int8Builder, int8_t>(arrow::int8(), {1, -128}), torch::kInt8,
       torch::tensor({1, -128})},
      {array_of<arrow::Int16Builder, int16_t>(arrow::int16(), {1, -32768}), torch::kInt16,
       torch::tensor({1, -32768})},
      {array_of<arrow::Int32Builder, int32_t>(arrow::int32(), {1, 1 << 30}), torch::kInt32,
       torch::tensor({1, 1 << 30})},
      {int64s({1, kLargeId}), torch::kInt64, torch::tensor({int64_t{1}, kLargeId})},
      {array_of<arrow::UInt8Builder, uint8_t>(arrow::uint8(), {1, 255}), torch::kUInt8,
       torch::tensor({1, 255})},
      {array_of<arrow::UInt16Builder, uint16_t>(arrow::uint16(), {1, 65535}), torch::kInt32,
       torch::tensor({1, 65535})},
      {array_of<arrow::UInt32Builder, uint32_t>(arrow::uint32(), {1, 4294967295u}), torch::kInt64,
       torch::tensor({int64_t{1}, int64_t{4294967295}})},
      {array_of<arrow::UInt64Builder, uint64_t>(arrow::uint64(), {1, uint64_t{kLargeId}}),
       torch::kInt64, torch::tensor({int64_t{1}, kLargeId})},
      {halves, torch::kFloat16, torch::tensor({1.0, -2.5})},
      {array_of<arrow::FloatBuilder, float>(arrow::float32(), {1.5f, 0.1f}), torch::kFloat32,
       torch::tensor({1.5f, 0.1f})},
      {doubles({1.5, 0.1}), torch::kFloat64, torch::tensor({1.5, 0.1}, torch::kFloat64)},
      {array_of<arrow::TimestampBuilder, int64_t>(timestamps, {1, kLargeId}), torch::kInt64,
       torch::tensor({int64_t{1}, kLargeId})},
      {array_of<arrow::Date32Builder, int32_t>(arrow::date32(), {1, 20000}), torch::kInt64,
       torch::tensor({1, 20000})},
      {array_of<arrow::Time32Builder, int32_t>(arrow::time32(arrow::TimeUnit::MILLI), {1, 2}),
       torch::kInt64, torch::tensor({1, 2})},
      {array_of<arrow::Time64Builder, int64_t>(arrow::time64(arrow::TimeUnit::NANO), {1, 2}),
       torch::kInt64, torch::tensor({1, 2})},
      {array_of<arrow::DurationBuilder, int64_t>(arrow::duration(arrow::TimeUnit::SECOND), {1, 2}),
       torch::kInt64, torch::tensor({1, 2})},
      {array_of<arrow::BooleanBuilder, bool>(arrow::boolean(), {true, false}), torch::kBool,
       torch::tensor({true, false})},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.array->type()->ToString());
    torch::Tensor tensor = TorchBatch(batch_of({{"c", c.array}}))["c"];
    EXPECT_EQ(tensor.scalar_type(), c.dtype);
    EXPECT_TRUE(torch::equal(tensor, c.expected.to(c.dtype))) << tensor;
    // A slice of a batch, as training gives it, begins anywhere.
    torch::Tensor second = TorchBatch(batch_of({{"c", c.array->Slice(1)}}))["c"];
    EXPECT_TRUE(torch::equal(second, tensor.slice(0, 1))) << second;
  }
}

TEST(TorchBatch, WhatIsNotExactIsRefused) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  auto time = arrow::timestamp(arrow::TimeUnit::SECOND);
  struct Case {
    std::shared_ptr<arrow::Array> array;  // the interesting value is in row 1
    torch::Dtype dtype;
    std::string message;
    double allowed;  // the value if rounding is allowed
  };
  std::vector<Case> cases = {
      {int64s({1, 16777217}), torch::kFloat32, "holds 16777217, which torch::kFloat32", 16777216},
      {int64s({1, kLargeId}), torch::kFloat64, "holds 9007199254740993, which torch::kFloat64",
       9007199254740992},
      {int64s({1, 300}), torch::kUInt8, "holds 300, which torch::kUInt8", 255},
      {int64s({1, -1}), torch::kUInt8, "holds -1, which torch::kUInt8", 0},
      {int64s({1, int64_t{1} << 31}), torch::kInt32, "holds 2147483648, which torch::kInt32",
       2147483647},
      {int64s({1, 2}), torch::kBool, "holds 2, which torch::kBool", 1},
      {int64s({1, 2049}), torch::kFloat16, "holds 2049, which torch::kFloat16", 2048},
      {array_of<arrow::UInt64Builder, uint64_t>(arrow::uint64(), {1, ~uint64_t{0}}), torch::kInt64,
       "holds 18446744073709551615, which torch::kInt64", 9223372036854775807.0},
      {doubles({1, 2.7}), torch::kInt64, "holds 2.7000000000000002, which torch::kInt64", 2},
      {doubles({1, nan}), torch::kInt64, "holds nan, which torch::kInt64", 0},
      {doubles({1, 1e300}), torch::kFloat32, "holds 1.0000000000000001e+300, which torch::kFloat32",
       std::numeric_limits<double>::infinity()},
      {doubles({1, 1e10}), torch::kInt32, "holds 10000000000, which torch::kInt32", 2147483647},
      {array_of<arrow::TimestampBuilder, int64_t>(time, {1, 1700000001}), torch::kFloat32,
       "of type timestamp[s]: row 1 of the batch holds 1700000001, which torch::kFloat32",
       1700000000},
      {int64s({1, {}}), torch::kInt64, "has a null in row 1 of the batch, which torch::kInt64", 0},
      {array_of<arrow::BooleanBuilder, bool>(arrow::boolean(), {true, {}}), torch::kBool,
       "has a null in row 1", 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    TorchBatch batch(batch_of({{"c", c.array}, {"one", int64s({1, 1})}}));
    auto message = AllOf(HasSubstr("column 'c' "), HasSubstr(c.message));
    EXPECT_THAT(message_of([&] { batch.column("c", c.dtype); }), message);
    EXPECT_THAT(message_of([&] { batch.columns({"one", "c"}, c.dtype); }), message);
    EXPECT_THAT(message_of([&] { TorchBatch(batch_of({{"c", c.array}}), c.dtype)["c"]; }), message);
    torch::Tensor allowed = batch.column("c", c.dtype, Inexact::kAllowed);
    EXPECT_EQ(allowed[0].item<double>(), 1);
    EXPECT_EQ(allowed[1].item<double>(), c.allowed);
    torch::Tensor matrix = batch.columns({"one", "c"}, c.dtype, Inexact::kAllowed);
    EXPECT_TRUE(torch::equal(matrix.select(1, 1), allowed));
  }
}

TEST(TorchBatch, WhatIsExactIsNotRefused) {
  double infinity = std::numeric_limits<double>::infinity();
  TorchBatch batch(batch_of({{"large", int64s({1 << 25, -(1 << 24), int64_t{1} << 40})},
                             {"whole", doubles({3, -128, -0.0})},
                             {"rounded", doubles({0.1, infinity, -infinity})},
                             {"gaps", int64s({1, {}, 3})}}));
  EXPECT_EQ(batch.column("large", torch::kFloat32)[2].item<double>(), 1099511627776.0);
  EXPECT_EQ(batch.column("whole", torch::kInt8)[1].item<int64_t>(), -128);
  torch::Tensor rounded = batch.column("rounded", torch::kFloat32);
  EXPECT_EQ(rounded[0].item<float>(), 0.1f);
  EXPECT_EQ(rounded[2].item<double>(), -infinity);
  torch::Tensor gaps = batch.columns({"gaps", "whole"});
  EXPECT_EQ(gaps.scalar_type(), torch::kFloat32);
  EXPECT_TRUE(gaps[1][0].isnan().item<bool>());
  EXPECT_EQ(gaps[2][0].item<double>(), 3);
}

// The memory under a null does not count as a value.
TEST(TorchBatch, NullsHideWhatIsUnderThem) {
  auto valid = check(arrow::AllocateBitmap(2), "test data");
  valid->mutable_data()[0] = 0b01;
  std::vector<int64_t> values = {7, kLargeId};
  auto array = std::make_shared<arrow::Int64Array>(
      2, arrow::Buffer::Wrap(values), std::shared_ptr<arrow::Buffer>(std::move(valid)), 1);
  torch::Tensor tensor = TorchBatch(batch_of({{"c", array}}), torch::kFloat32)["c"];
  EXPECT_EQ(tensor[0].item<double>(), 7);
  EXPECT_TRUE(tensor[1].isnan().item<bool>());
}

TEST(TorchBatch, DtypesForAllOrForSomeColumns) {
  auto rows = batch_of({{"id", int64s({kLargeId})}, {"a", int64s({1})}, {"b", doubles({0.5})}});
  TorchBatchOptions all{.dtypes = torch::kFloat32};
  TorchBatchOptions some{.dtypes = {{"a", torch::kFloat64}, {"b", torch::kFloat64}}};
  TorchBatchOptions one{.dtypes = {{"a", torch::kFloat16}}};
  EXPECT_EQ(TorchBatch(rows, all.dtypes)["b"].scalar_type(), torch::kFloat32);
  TorchBatch batch(rows, some.dtypes);
  EXPECT_EQ(batch["a"].scalar_type(), torch::kFloat64);
  EXPECT_EQ(batch["id"].item<int64_t>(), kLargeId);
  EXPECT_EQ(batch.columns({"a", "b"}).scalar_type(), torch::kFloat64);
  EXPECT_EQ(TorchBatch(rows).columns({"a", "b"}).scalar_type(), torch::kFloat32);
  EXPECT_EQ(TorchBatch(rows, one.dtypes)["a"].scalar_type(), torch::kFloat16);
  EXPECT_THAT(message_of([&] {
                TorchBatch(rows, one.dtypes).columns({"a", "b"});
              }),
              HasSubstr("dtypes does not give one type for all of the 2 columns"));
  EXPECT_THAT(message_of([&] {
                TorchBatch(rows, {{"nil", torch::kInt64}});
              }),
              HasSubstr("no column 'nil'; there are 'id', 'a', 'b'"));
}

TEST(TorchBatch, OtherTypesAreRefused) {
  auto dictionary = check(arrow::DictionaryArray::FromArrays(int64s({0, 0}), int64s({5})), "");
  auto decimal = check(arrow::MakeArrayOfNull(arrow::decimal128(9, 2), 2), "test data");
  auto null = check(arrow::MakeArrayOfNull(arrow::null(), 2), "test data");
  TorchBatch batch(batch_of({{"dictionary", dictionary}, {"decimal", decimal}, {"null", null}}));
  for (const char* name : {"dictionary", "decimal", "null"}) {
    auto message = HasSubstr(str("column '", name, "' is of type ", name));
    EXPECT_THAT(message_of([&] { batch[name]; }), message);
    EXPECT_THAT(message_of([&] { batch.column(name, torch::kFloat32, Inexact::kAllowed); }),
                message);
  }
  TorchBatch numbers(batch_of({{"n", int64s({1})}}));
  EXPECT_THAT(message_of([&] { numbers.column("n", torch::kComplexFloat); }),
              AllOf(HasSubstr("type ComplexFloat"), HasSubstr("torch::kInt16")));
}

TEST(TorchBatch, VectorsAreSeveralColumns) {
  auto vectors = data::array_from_json(arrow::fixed_size_list(arrow::int16(), 2),
                                       {{1, 2}, {3, 4}, {5, 600}, {7, 8}});
  auto numbers = data::array_from_json(arrow::float64(), {0.5, 1.5, 2.5, 3.5});
  auto batch = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("v", vectors->type()), arrow::field("x", numbers->type())}), 4,
      {vectors, numbers});
  TorchBatch rows(batch->Slice(1, 3));
  EXPECT_TRUE(torch::equal(rows["v"], torch::tensor({{3, 4}, {5, 600}, {7, 8}}, torch::kInt16)));
  EXPECT_TRUE(torch::equal(rows.columns({"v"}),
                           torch::tensor({{3, 4}, {5, 600}, {7, 8}}, torch::kFloat32)));
  EXPECT_TRUE(torch::equal(
      rows.columns({"x", "v"}),
      torch::tensor({{1.5, 3., 4.}, {2.5, 5., 600.}, {3.5, 7., 8.}}, torch::kFloat32)));
  std::string message = message_of([&] { rows.column("v", torch::kUInt8); });
  EXPECT_NE(message.find("row 1 of the batch holds 600"), std::string::npos) << message;
  message = message_of([&] { rows.columns({"x", "v"}, torch::kUInt8, Inexact::kRefused); });
  EXPECT_NE(message.find("'x'"), std::string::npos) << message;
}

}  // namespace
}  // namespace manta
