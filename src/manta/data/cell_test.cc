#include <arrow/api.h>
#include <arrow/json/from_string.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "manta/data/cell_internal.h"

namespace manta::data {
namespace {

TEST(CellTest, TextIsPrintableAndCut) {
  struct Case {
    std::string text, shown;
  };
  const Case cases[] = {
      {"", ""},
      {"plain", "plain"},
      {std::string(32, 'a'), std::string(32, 'a')},
      {std::string(33, 'a'), std::string(29, 'a') + "..."},
      {"two\nlines\tand\r", "two\\nlines\\tand\\r"},
      {std::string("nul\0x", 5), "nul\\x00x"},
      {"\x1b[31mred", "\\x1b[31mred"},
      {"\xff\xfe", "\\xff\\xfe"},
      {"Zürich", "Zürich"},
      {"\xc3", "\\xc3"},                    // ends in the middle of a character
      {"\xc0\x80", "\\xc0\\x80"},           // overlong
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},  // half of a surrogate pair
      {"\xc2\x9b"
       "1m",
       "\\xc2\\x9b1m"},  // a control of 8 bits
      {"\xe2\x80\xae"
       "abc",
       "\\xe2\\x80\\xaeabc"},  // from right to left
  };
  for (const auto& test : cases) EXPECT_EQ(printable(test.text), test.shown);
  std::string umlauts;
  for (int i = 0; i < 40; ++i) umlauts += "ü";
  EXPECT_EQ(width_of(printable(umlauts)), 32u);
  EXPECT_EQ(printable(umlauts), umlauts.substr(0, 2 * 29) + "...");
  EXPECT_EQ(printable(std::string(20, '\n')), "\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n...");
}

TEST(CellTest, ValuesOfEveryTypeAreShort) {
  auto of = [](const std::shared_ptr<arrow::DataType>& type, const char* json) {
    auto array = arrow::json::ArrayFromJSONString(type, json).ValueOrDie();
    return cell_text(*array, array->length() - 1);
  };
  EXPECT_EQ(of(arrow::int64(), "[7, -3]"), "-3");
  EXPECT_EQ(of(arrow::int64(), "[null]"), "null");
  EXPECT_EQ(of(arrow::float64(), "[1]"), "1");
  EXPECT_EQ(of(arrow::boolean(), "[true]"), "true");
  EXPECT_EQ(of(arrow::null(), "[null]"), "null");
  EXPECT_EQ(of(arrow::binary(), "[\"a\\u0001\"]"), "a\\x01");
  EXPECT_EQ(of(arrow::large_utf8(), "[\"a\"]"), "a");
  EXPECT_EQ(of(arrow::utf8_view(), "[\"a\"]"), "a");
  EXPECT_EQ(of(arrow::fixed_size_binary(2), "[\"ab\"]"), "ab");
  EXPECT_EQ(of(arrow::list(arrow::int8()), "[[9], [1, null, 3]]"), "[1, null, 3]");
  EXPECT_EQ(of(arrow::fixed_size_list(arrow::int8(), 2), "[[1, 2]]"), "[1, 2]");
  EXPECT_EQ(of(arrow::struct_({arrow::field("a", arrow::int8()), arrow::field("b", arrow::utf8())}),
               "[{\"a\": 1, \"b\": \"x\"}]"),
            "{a: 1, b: x}");
  EXPECT_EQ(of(arrow::timestamp(arrow::TimeUnit::SECOND), "[\"2020-01-31\"]"),
            "2020-01-31 00:00:00");
  EXPECT_EQ(of(arrow::dictionary(arrow::int8(), arrow::utf8()), "[\"first\", \"second\", null]"),
            "null");
  EXPECT_EQ(of(arrow::dictionary(arrow::int8(), arrow::utf8()), "[\"first\", \"second\"]"),
            "second");
  EXPECT_EQ(of(arrow::list(arrow::int64()), "[[1000000000, 2000000000, 3000000000, 4000000000]]"),
            "[1000000000, 2000000000, 3000...");
}

}  // namespace
}  // namespace manta::data
