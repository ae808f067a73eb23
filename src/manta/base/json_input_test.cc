#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "manta/base/error_of_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/json_number_internal.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(JsonInputTest, ReadsWhatNlohmannReads) {
  for (const char* text :
       {"null", "true", "[]", "{}", "-1", "18446744073709551615", "1e300", R"("a\u0000\n")",
        R"({"a": [1, {"b": [[], {}, [null, false]]}, "c"], "d": {"e": -0.5}})", " [1 ,2] \n"}) {
    EXPECT_EQ(parse_json(text, "it"), Json::parse(text)) << text;
  }
}

TEST(JsonInputTest, WhatIsNotJsonIsAnErrorThatSaysWhere) {
  for (std::string text : {"", " ", "{", "[1,", "[1 2]", "{\"a\"}", "nul", "\"\xff\"", "[1]x",
                           "{\"a\":1,}", "1e999", "NaN", "[-]", "\"a"}) {
    Error error = error_of([&] { parse_json(text, "the file 'x'"); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << text;
    EXPECT_THAT(error.what(), StartsWith("the file 'x' is not JSON: ")) << text;
  }
  EXPECT_THAT(message_of([] { parse_json("[1 2]", "it"); }), HasSubstr("column 4"));
}

TEST(JsonInputTest, LimitsHoldWhileItReads) {
  struct {
    std::string text;
    JsonLimits limits;
    const char* message;
  } cases[] = {
      {std::string(5'000'000, '['), {}, "more than 100 arrays and objects"},
      {"[[[]]]", {.depth = 2}, "more than 2 arrays"},
      {R"({"a": {"b": {}}})", {.depth = 2}, "more than 2 arrays"},
      {"[1, 2, 3]", {.values = 3}, "more than 3 values"},
      {"[1, 2, 3]", {.bytes = 8}, "has 9 bytes; at most 8 are read"},
      {R"({"a": {"b": 1, "b": 2}})", {}, "the key \"b\" twice"},
  };
  for (const auto& one : cases) {
    Error error = error_of([&] { parse_json(one.text, "it", one.limits); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << one.message;
    EXPECT_THAT(error.what(), HasSubstr(one.message));
    EXPECT_LT(std::string(error.what()).size(), 300u);
  }
  EXPECT_EQ(parse_json("[[1]]", "it", {.bytes = 5, .depth = 2, .values = 3}), Json({{1}}));
  std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_NO_THROW(check_depth(parse_json(deep, "it"), "it"));
  EXPECT_EQ(error_of([&] { check_depth(parse_json(deep, "it"), "it", 99); }).kind(),
            ErrorKind::kInvalidArgument);
}

TEST(JsonInputTest, WhatIsWrittenIsReadAgain) {
  Json good = {{"a", {1, 2}}, {"nan", NAN}, {"bytes", "\xff"}};
  EXPECT_EQ(count_values(good), 6u);
  std::string text = readable_text(good, "it", "less", {.values = 6});
  EXPECT_EQ(text, "{\"a\":[1,2],\"bytes\":\"\xef\xbf\xbd\",\"nan\":null}\n");
  EXPECT_NO_THROW(parse_json(text, "it", {.bytes = text.size(), .values = 6}));
  struct {
    Json json;
    JsonLimits limits;
    const char* message;
  } cases[] = {
      {good, {.values = 5}, "it has more than 5 values, so it would not be read again: less"},
      {good, {.bytes = text.size() - 1}, "bytes; at most"},
      {good, {.depth = 1}, "it has more than 1 arrays and objects inside each other"},
      // Both keys become the same when their bytes are replaced.
      {{{"\xff", 1}, {"\xfe", 2}}, {}, "twice in one object"},
  };
  for (const auto& one : cases) {
    Error error = error_of([&] { readable_text(one.json, "it", "less", one.limits); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << one.message;
    EXPECT_THAT(error.what(), HasSubstr(one.message));
  }
}

TEST(JsonInputTest, FieldsAreCheckedByTypeAndRange) {
  Json json = {{"one", 1},
               {"minus", -1},
               {"half", 0.5},
               {"huge", 1e300},
               {"most", ~0ull},
               {"nan", NAN},
               {"text", "abc"},
               {"zero", std::string(1, '\0')},
               {"yes", true},
               {"list", {1, 2}},
               {"names", {"a", "b"}},
               {"objects", {{{"one", 1}}, {{"one", "1"}}}},
               {"inner", {{"one", "1"}}},
               {"none", nullptr}};
  JsonFields fields(json, std::string("'f.json'"));
  EXPECT_EQ(fields.integer("one", 1, 1), 1);
  EXPECT_EQ(fields.number("half", 0, 1), 0.5);
  EXPECT_EQ(fields.number("one", 0, 1), 1);
  EXPECT_EQ(fields.text("text", 3), "abc");
  EXPECT_TRUE(fields.boolean("yes"));
  EXPECT_EQ(fields.array("list").size(), 2u);
  EXPECT_TRUE(fields.object_or_null("none").is_null());
  EXPECT_EQ(fields.unsigned_integer("most"), ~0ull);
  EXPECT_EQ(fields.unsigned_integer("one"), 1u);
  EXPECT_EQ(fields.texts("names"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(fields.element("objects", 0).integer("one", 0, 1), 1);

  struct {
    std::function<void()> read;
    const char* message;
  } cases[] = {
      {[&] { fields.integer("minus", 0, 9); }, "minus is -1; expected a whole number from 0 to 9"},
      {[&] { fields.integer("huge", 0, 9); }, "huge is 1e+300"},
      {[&] { fields.integer("most", 0, INT64_MAX); }, "most is 18446744073709551615"},
      {[&] { fields.integer("half", 0, 9); }, "half is 0.5"},
      {[&] { fields.integer("nan", 0, 9); }, "nan is null"},
      {[&] { fields.integer("gone", 0, 9); }, "gone is missing"},
      {[&] { fields.integer("text", 0, 9); }, "text is \"abc\""},
      {[&] { fields.number("nan", 0, 9); }, "nan is null"},
      {[&] { fields.number("none", 0, 9); }, "none is null"},
      {[&] { fields.number("huge", 0, 9); }, "huge is 1e+300"},
      {[&] { fields.text("text", 2); }, "at most 2 bytes"},
      {[&] { fields.text("zero"); }, "zero is"},
      {[&] { fields.text("one"); }, "one is 1"},
      {[&] { fields.boolean("one"); }, "one is 1; expected true or false"},
      {[&] { fields.array("inner"); }, "expected an array"},
      {[&] { fields.object("list"); }, "list is [1,2] instead of a JSON object"},
      {[&] { fields.object("inner").integer("one", 0, 1); }, "inner.one is \"1\""},
      {[&] { fields.object_or_null("list"); }, "an object or null"},
      {[&] { fields.any("gone"); }, "gone is missing"},
      {[&] { fields.unsigned_integer("minus"); }, "minus is -1; expected a whole number of 64"},
      {[&] { fields.unsigned_integer("half"); }, "half is 0.5"},
      {[&] { fields.unsigned_integer("gone"); }, "gone is missing"},
      {[&] { fields.texts("list"); }, "one is 1"},
      {[&] { fields.texts("names", 0); }, "texts of at most 0 bytes: one is \"a\""},
      {[&] { fields.element("objects", 1).integer("one", 0, 1); }, "objects[1].one is \"1\""},
      {[&] { fields.element("list", 1); }, "list[1] is 2 instead of a JSON object"},
      {[&] { JsonFields(json["list"], std::string("'f.json'")); }, "is [1,2] instead of"},
  };
  for (const auto& one : cases) {
    Error error = error_of(one.read);
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << one.message;
    EXPECT_THAT(error.what(), AllOf(StartsWith("'f.json' is damaged: "), HasSubstr(one.message)));
  }
}

TEST(JsonInputTest, TheDocumentSaysOfWhichKindErrorsAre) {
  Json json = {{"one", 1}, {"list", {1}}};
  JsonFields fields(json, {"the plan", ErrorKind::kInvalidArgument});
  EXPECT_EQ(error_of([&] { fields.text("one"); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([&] { fields.element("list", 0); }).kind(), ErrorKind::kInvalidArgument);
}

TEST(JsonInputTest, TextsThatAreNotUtf8AreFoundAtAnyDepth) {
  EXPECT_TRUE(is_utf8({{"a", {1, "\xc3\xa4", nullptr}}}));
  EXPECT_FALSE(is_utf8("\xff"));
  EXPECT_FALSE(is_utf8({{"a", {1, "\xc3"}}}));
  EXPECT_FALSE(is_utf8({{"\xff", 1}}));
}

TEST(JsonNumberTest, NumbersThatJsonLacksAreWords) {
  for (double value : {0.0, -1.5, 1e308, HUGE_VAL, -HUGE_VAL}) {
    EXPECT_EQ(decode_number(parse_json(encode_number(value).dump(), "it")), value);
  }
  for (double value : {double(NAN), -double(NAN)}) {
    EXPECT_EQ(encode_number(value), "nan");
    EXPECT_TRUE(std::isnan(decode_number(encode_number(value)).value()));
  }
  for (const Json& json : {Json(), Json("abc"), Json(""), Json("Inf"), Json(true), Json::array()}) {
    EXPECT_FALSE(decode_number(json)) << json;
  }
}

}  // namespace
}  // namespace manta
