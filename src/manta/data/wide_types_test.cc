#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/extension_type.h>
#include <arrow/util/float16.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/data/wide_types_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Text that means something to somebody.
class LabelType final : public arrow::ExtensionType {
 public:
  LabelType() : arrow::ExtensionType(arrow::utf8()) {}
  std::string extension_name() const override { return "manta.test.label"; }
  bool ExtensionEquals(const arrow::ExtensionType& other) const override {
    return other.extension_name() == extension_name();
  }
  std::shared_ptr<arrow::Array> MakeArray(std::shared_ptr<arrow::ArrayData> data) const override {
    return std::make_shared<arrow::ExtensionArray>(std::move(data));
  }
  arrow::Result<std::shared_ptr<arrow::DataType>> Deserialize(std::shared_ptr<arrow::DataType>,
                                                              const std::string&) const override {
    return std::make_shared<LabelType>();
  }
  std::string Serialize() const override { return ""; }
};

std::shared_ptr<arrow::Array> casted(const std::shared_ptr<arrow::Array>& array,
                                     const std::shared_ptr<arrow::DataType>& type) {
  start_compute();
  return check(arrow::compute::Cast(*array, type), "a test column");
}

template <class Builder, class T>
std::shared_ptr<arrow::Array> column_of(Builder&& builder, const std::vector<T>& values) {
  check(builder.Append(values[0]), "a test column");
  check(builder.AppendNull(), "a test column");
  for (size_t i = 1; i < values.size(); ++i) check(builder.Append(values[i]), "a test column");
  return check(builder.Finish(), "a test column");
}

// Values of each type, with the ends of its range and a null.
arrow::ArrayVector all_types() {
  using namespace arrow;  // NOLINT
  auto json = [](const std::shared_ptr<DataType>& type, const char* values) {
    return array_from_json(type, Json::parse(values));
  };
  ArrayVector arrays;
  arrays.push_back(json(null(), "[null, null, null]"));
  arrays.push_back(json(boolean(), "[true, null, false]"));
  arrays.push_back(json(int8(), "[-128, null, 127, 0]"));
  arrays.push_back(json(int16(), "[-32768, null, 32767]"));
  arrays.push_back(json(int32(), "[-2147483648, null, 2147483647]"));
  arrays.push_back(json(int64(), "[-9223372036854775808, null, 9223372036854775807, -1]"));
  arrays.push_back(json(uint8(), "[255, null, 0]"));
  arrays.push_back(json(uint16(), "[65535, null, 0]"));
  arrays.push_back(json(uint32(), "[4294967295, null, 0]"));
  arrays.push_back(json(uint64(), "[18446744073709551615, null, 0, 9223372036854775808]"));
  double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  arrays.push_back(
      column_of(DoubleBuilder(), std::vector<double>{-0.0, nan, -nan, inf, -inf, 0.0, 5e-324, 1e308,
                                                     std::bit_cast<double>(0x7ff4000000000001)}));
  arrays.push_back(
      column_of(FloatBuilder(), std::vector<float>{-0.0f, std::nanf("1"), -1.5f, 3e38f, 0.0f}));
  arrays.push_back(
      column_of(HalfFloatBuilder(), std::vector<uint16_t>{0x8000, 0x7e01, 0x3c00, 0xfc00, 0}));
  arrays.push_back(json(decimal32(9, 2), R"(["1.25", null, "-9999999.99"])"));
  arrays.push_back(json(decimal64(18, 3), R"(["1.250", null, "-999999999999999.999"])"));
  arrays.push_back(
      json(decimal128(38, 5), R"(["1.25000", null, "-999999999999999999999999999999999.99999"])"));
  arrays.push_back(json(
      decimal256(76, 10),
      R"(["1.2500000000", null, "-123456789012345678901234567890123456789012345678901234567890.0123456789"])"));
  arrays.push_back(json(date32(), "[18262, null, -1]"));
  arrays.push_back(json(date64(), "[86400000, null, -86400000]"));
  arrays.push_back(json(time32(TimeUnit::SECOND), "[1, null, 86399]"));
  arrays.push_back(json(time32(TimeUnit::MILLI), "[1, null, 86399999]"));
  arrays.push_back(json(time64(TimeUnit::MICRO), "[1, null, 86399999999]"));
  arrays.push_back(json(time64(TimeUnit::NANO), "[1, null, 86399999999999]"));
  for (auto unit : {TimeUnit::SECOND, TimeUnit::MILLI, TimeUnit::MICRO, TimeUnit::NANO}) {
    arrays.push_back(casted(json(int64(), "[-9223372036854775807, null, 9223372036854775807, 1]"),
                            timestamp(unit)));
    arrays.push_back(casted(json(int64(), "[-9223372036854775808, null, 9223372036854775807]"),
                            timestamp(unit, "Europe/Zurich")));
    arrays.push_back(casted(json(int64(), "[-9223372036854775808, null, 7]"), duration(unit)));
  }
  arrays.push_back(json(month_interval(), "[-3, null, 7]"));
  arrays.push_back(json(day_time_interval(), "[[1, 2], null, [-3, 4]]"));
  arrays.push_back(json(month_day_nano_interval(), "[[1, 2, 3], null, [-4, 5, -6]]"));
  const char* texts = R"(["", null, "a", "thirteen chars", "ünïcode", "a\u0000b"])";
  for (const auto& type :
       {utf8(), large_utf8(), binary(), large_binary(), utf8_view(), binary_view()}) {
    arrays.push_back(json(type, texts));
  }
  arrays.push_back(column_of(BinaryBuilder(), std::vector<std::string>{"\xff\xfe", "\xc3"}));
  arrays.push_back(std::make_shared<StringArray>(
      arrays.back()->length(), arrays.back()->data()->buffers[1], arrays.back()->data()->buffers[2],
      arrays.back()->data()->buffers[0]));  // text that is not UTF-8
  arrays.push_back(json(fixed_size_binary(3), R"(["abc", null, "xyz"])"));
  arrays.push_back(
      json(fixed_size_binary(16), R"(["0123456789abcdef", null, "fedcba9876543210"])"));
  arrays.push_back(json(dictionary(int8(), utf8()), R"(["a", null, "b", "a"])"));
  arrays.push_back(json(dictionary(uint32(), int64()), "[7, null, 8, 7]"));
  arrays.push_back(json(list(int32()), "[[1, 2], null, [], [null, 3]]"));
  arrays.push_back(json(large_list(utf8()), R"([["a", null], null, [], ["bc"]])"));
  arrays.push_back(json(fixed_size_list(float32(), 2), "[[1, 2], null, [3, 4]]"));
  arrays.push_back(json(fixed_size_list(int8(), 0), "[[], null, []]"));
  arrays.push_back(json(list(list(boolean())), "[[[true, null], []], null, []]"));
  arrays.push_back(json(struct_({field("x", int64()), field("y", utf8())}),
                        R"([{"x": 1, "y": "a"}, null, {"x": null, "y": "b"}])"));
  arrays.push_back(json(struct_({}), "[{}, null, {}]"));
  arrays.push_back(
      json(map(utf8(), int64()), R"([[["a", 1], ["a", 2]], null, [], [["b", null]]])"));
  arrays.push_back(json(list(dictionary(int16(), utf8())), R"([["a", "b"], null, ["a", null]])"));
  arrays.push_back(json(list(decimal128(20, 2)), R"([["1.25"], null, [null, "2.50"]])"));
  arrays.push_back(json(list(utf8_view()), R"([["a", "a text of more than twelve"], null])"));
  arrays.push_back(check(compute::RunEndEncode(json(int64(), "[1, 1, null, null, 2]"),
                                               compute::RunEndEncodeOptions(int16())),
                         "run ends")
                       .make_array());
  auto label = std::make_shared<LabelType>();
  arrays.push_back(ExtensionType::WrapArray(label, json(utf8(), R"(["l1", null, "l2"])")));
  arrays.push_back(
      ExtensionType::WrapArray(label, json(utf8(), R"(["l1", null, "l2"])"))->Slice(1, 2));
  arrays.push_back(json(list(int32()), "[[1, 2], null, [], [null, 3]]")->Slice(1, 3));
  arrays.push_back(json(utf8(), texts)->Slice(2, 3));
  arrays.push_back(json(boolean(), "[true, null, false, true]")->Slice(1, 3));
  return arrays;
}

void expect_same(const arrow::Array& given, const arrow::Array& expected) {
  EXPECT_TRUE(given.type()->Equals(*expected.type(), true)) << given.type()->ToString();
  check(given.ValidateFull().ok() || expected.type_id() == arrow::Type::STRING
            ? arrow::Status::OK()
            : given.ValidateFull(),
        "a column that came back");
  arrow::EqualOptions options = arrow::EqualOptions::Defaults().nans_equal(true);
  EXPECT_TRUE(given.Equals(expected, options)) << given.ToString() << expected.ToString();
}

TEST(WideTypesTest, PayloadsComeBackBitForBit) {
  for (const auto& array : all_types()) {
    SCOPED_TRACE(array->type()->ToString());
    auto lane = Payload::encode(array);
    EXPECT_EQ(lane_of(*lane->type()), lane_of(*Payload::lane_type(*array->type())));
    if (lane->type_id() == arrow::Type::BINARY) lane = casted(lane, arrow::large_binary());
    expect_same(*Payload::decode(lane, array->type()), *array);
  }
  arrow::DoubleBuilder builder;
  for (uint64_t bits : {0x7ff8000000000123u, 0xfff8000000000001u, 0x8000000000000000u}) {
    check(builder.Append(std::bit_cast<double>(bits)), "NaN");
  }
  auto odd = check(builder.Finish(), "NaN");
  auto back = Payload::decode(Payload::encode(odd), odd->type());
  EXPECT_EQ(0, std::memcmp(odd->data()->buffers[1]->data(), back->data()->buffers[1]->data(), 24));
}

// With rows that are few enough to stay outside of DuckDB, and with more than may.
TEST(WideTypesTest, EveryTypePassesThroughASort) {
  constexpr int64_t kMemory = 64 << 20;
  auto place = array_from_json(arrow::int64(), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (int64_t filler_bytes : {int64_t{0}, kMemory / 3}) {
    arrow::LargeBinaryBuilder builder;
    check(builder.Append(std::string(static_cast<size_t>(filler_bytes), 'x')), "filler");
    check(builder.AppendNulls(place->length() - 1), "filler");
    auto filler = check(builder.Finish(), "filler");
    for (const auto& array : all_types()) {
      SCOPED_TRACE(str(array->type()->ToString(), " beside ", filler_bytes));
      auto table = arrow::Table::Make(
          arrow::schema({arrow::field("place", arrow::int64()),
                         arrow::field("filler", filler->type()), arrow::field("x", array->type())}),
          {place->Slice(0, array->length()), filler->Slice(0, array->length()), array});
      auto turned = from_arrow(table).sort("place", {.descending = true, .memory_bytes = kMemory});
      auto again = turned.sort("place", {.memory_bytes = kMemory}).to_table();
      ASSERT_EQ(again->num_rows(), array->length());
      ASSERT_EQ(again->column(2)->num_chunks(), 1);
      expect_same(*again->column(2)->chunk(0), *array);
    }
  }
}

TEST(WideTypesTest, KeysKeepOrderAndValues) {
  for (const auto& array : all_types()) {
    SCOPED_TRACE(array->type()->ToString());
    if (!Key::lane_type(*array->type())) {
      auto table = arrow::Table::Make(arrow::schema({arrow::field("x", array->type())}), {array});
      EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { from_arrow(table).sort("x"); }),
                  AllOf(HasSubstr("'x' is of type " + array->type()->ToString()),
                        HasSubstr("cannot be compared")));
      continue;
    }
    auto lane = Key::encode(array);
    if (lane->type_id() == arrow::Type::BINARY) lane = casted(lane, arrow::large_binary());
    auto back = Key::decode(lane, array->type());
    EXPECT_TRUE(back->type()->Equals(*array->type()));
    EXPECT_TRUE(back->Equals(*array, arrow::EqualOptions::Defaults().nans_equal(true)))
        << back->ToString() << array->ToString();
  }
}

TEST(WideTypesTest, WhatCannotPassIsRefusedByName) {
  auto list_view = array_from_json(arrow::list_view(arrow::int32()), Json::parse("[[1], []]"));
  auto inner = arrow::dense_union({arrow::field("a", arrow::int32())});
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("odd", list_view->type())}),
      {array_from_json(arrow::int64(), {1, 2}), list_view});
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { from_arrow(table).sort("id"); }),
              AllOf(HasSubstr("in sort(id)"), HasSubstr("'odd'"),
                    HasSubstr("list_view<item: int32>"), HasSubstr("drop the column")));
  EXPECT_EQ(from_arrow(table).drop_columns({"odd"}).sort("id").count(), 2);
}

}  // namespace
}  // namespace manta::data
