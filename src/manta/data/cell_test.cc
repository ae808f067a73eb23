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

// Texts take as many columns as terminals give them.
TEST(CellTest, WidthsAreThoseOfATerminal) {
  const std::pair<const char*, size_t> cases[] = {
      {"", 0},
      {"plain", 5},
      {"Zürich", 6},
      {"Zu\u0308rich", 6},  // a combining mark
      {"日本語", 6},
      {"ｱｲｳ", 3},   // half width
      {"ＡＢ", 4},  // full width
      {"한국", 4},
      {"\u1112\u1161\u11ab", 2},  // one syllable of three letters
      {"👍", 2},
      {"👍🏽", 4},
      {"a\u200db", 2},  // a joiner
      {"\u05d0\u05b8", 1},
      {"\u00ad", 1},
      {"\U00020000\U0003fffd", 4},  // ideographs, also those that are not assigned yet
      {"→é", 2},
      {"\xff\xc3", 2},
  };
  for (const auto& [text, width] : cases) EXPECT_EQ(width_of(text), width) << text;
  std::string wide;
  for (int i = 0; i < 20; ++i) wide += "日";
  EXPECT_EQ(printable(wide), wide.substr(0, 3 * 14) + "...");
  EXPECT_EQ(printable(wide.substr(0, 3 * 16)), wide.substr(0, 3 * 16));
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
