#include <arrow/api.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/data/text_folder_internal.h"
#include "manta/data/wide_fixture_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const Json& odd_lines() {
  static const Json cases = Json::parse(
#include "manta/data/expected/json.inc"
  );
  return cases;
}

TEST(JsonTest, OddFilesAreReadAsPyarrowDoes) {
  TextFolder folder;
  int number = 0;
  for (const Json& one : odd_lines()) {
    std::string path = folder.write(str(number++, ".json"), one["text"]);
    for (int64_t bytes : {1, 10, 8 << 20}) {
      SCOPED_TRACE(str(one["name"], ", in parts of ", bytes, " bytes"));
      Dataset dataset = read_json(path, {.fragment_bytes = bytes});
      Json types = Json::object();
      auto schema = dataset.schema();
      for (const auto& field : schema->fields()) {
        types[field->name()] = field->type()->ToString();
      }
      EXPECT_EQ(types, one["types"]);
      EXPECT_EQ(rows_as_json(*dataset.to_table()), one["rows"]);
      Dataset read_back = Dataset::from_json(Json::parse(dataset.to_json().dump()));
      EXPECT_EQ(rows_as_json(*read_back.to_table()), one["rows"]);
      EXPECT_EQ(dataset.count(), static_cast<int64_t>(one["rows"].size()));
    }
  }
}

TEST(JsonTest, TextsThatAreTimesAreTimes) {
  TextFolder folder;
  std::string path = folder.write(
      "a.json",
      R"({"d": "2020-01-31", "t": "08:30:00", "s": "2020-01-31 08:30:00", "n": "2020-01-31T08:30:00.5", "z": "2020-01-31T08:30:00Z", "x": "2020-01-31"})"
      "\n"
      R"({"d": "2021-02-03", "t": null, "s": "2020-02-01", "n": "2020-01-31", "z": "2020-01-31 08:30:00+01:00", "x": "soon"})");
  auto schema = read_json(path).schema();
  std::vector<std::string> types;
  for (const auto& field : schema->fields()) types.push_back(field->type()->ToString());
  EXPECT_THAT(types, ElementsAre("date32[day]", "time32[s]", "timestamp[s]", "timestamp[ns]",
                                 "timestamp[s, tz=UTC]", "string"));
  EXPECT_EQ(read_json(path).filter(col("d") == "2021-02-03").count(), 1);
  EXPECT_EQ(read_json(path).filter(col("z") == "2020-01-31 07:30:00+00:00").count(), 1);
}

TEST(JsonTest, TypesThatTheUserGivesAreUsed) {
  TextFolder folder;
  std::string path = folder.write("a.json", R"({"id": 12, "v": [1, 2], "o": {"x": 1}, "big": 1}
{"id": "b7", "v": [2.5], "o": {"x": 2}, "big": 123456789012345678901234567890}
{"id": true, "v": null, "o": null, "big": 3})");
  Dataset dataset = read_json(
      path,
      {.column_types = {
           {"id", "string"},
           {"v", {{"list", "float32"}}},
           {"o",
            {{"struct", Json::array({Json::array({"x", "int8"}), Json::array({"y", "string"})})}}},
           {"big", "string"},
           {"more", "float64"}}});
  EXPECT_EQ(rows_as_json(*dataset.to_table()), Json::parse(R"([
    {"id": "12", "v": [1.0, 2.0], "o": {"x": 1, "y": null}, "big": "1", "more": null},
    {"id": "b7", "v": [2.5], "o": {"x": 2, "y": null},
     "big": "123456789012345678901234567890", "more": null},
    {"id": "true", "v": null, "o": null, "big": "3", "more": null}])"));
  EXPECT_EQ(dataset.schema()->GetFieldByName("o")->type()->field(0)->type()->ToString(), "int8");
  Dataset some = read_json(path, {.columns = {"v"}});
  EXPECT_THAT(some.columns(), ElementsAre("v"));
  EXPECT_EQ(some.count(), 3);
}

TEST(JsonTest, DecimalsHaveAllTheirDigitsOrAreErrors) {
  TextFolder folder;
  auto reading = [&](const std::string& text, const char* type) {
    return read_json(folder.write("a.json", "{\"a\": " + text + "}"),
                     {.column_types = {{"a", type}}});
  };
  struct {
    const char *text, *type, *read;
  } cases[] = {
      {"1.5", "decimal128(10, 2)", "1.50"},
      {"-12.5e-1", "decimal128(10, 2)", "-1.25"},
      {"1.2500000000000000000000000000000000000000000000000000", "decimal128(10, 2)", "1.25"},
      {"0e-100", "decimal128(10, 2)", "0.00"},
      {"-0.0", "decimal128(10, 2)", "0.00"},
      {"99999999.99", "decimal128(10, 2)", "99999999.99"},
      {"12345678E30", "decimal128(38, 0)", "12345678000000000000000000000000000000"},
      {"1e-60", "decimal256(76, 60)", "1E-60"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(scalar_text(*reading(one.text, one.type).to_table(), "a", 0), one.read) << one.text;
  }
  std::pair<const char*, const char*> refused[] = {
      {"340282366920938463463374607431768211457", "decimal128(10, 2)"},
      {"115792089237316195423570985008687907853269984665640564039457584007913129639937",
       "decimal256(10, 2)"},
      {"1e-100", "decimal128(10, 2)"},
      {"1e100", "decimal128(10, 2)"},
      {"1e-3000000000", "decimal128(10, 2)"},
      {"1.00000000000000000000000000000000000000000000000001", "decimal128(10, 2)"},
      {"12345678901", "decimal128(38, 30)"},
      {"100000000", "decimal128(10, 2)"},
  };
  for (const auto& [text, type] : refused) {
    EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                           [&, text = text, type = type] { reading(text, type).to_table(); }),
                AllOf(HasSubstr("'a'"), HasSubstr(text)));
  }
}

TEST(JsonTest, IntegersThatNothingHoldsAreNotRounded) {
  TextFolder folder;
  auto types = [&](const std::string& text) {
    return read_json(folder.write("a.json", text)).schema()->field(0)->type()->ToString();
  };
  EXPECT_EQ(types("{\"a\": 18446744073709551615}\n{\"a\": 1}"), "uint64");
  EXPECT_EQ(types("{\"a\": 18446744073709551616}\n{\"a\": 0.5}"), "double");
  for (const char* text :
       {"{\"a\": 18446744073709551616}", "{\"a\": 18446744073709551615}\n{\"a\": -1}"}) {
    EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { types(text); }),
                AllOf(HasSubstr("'a'"), HasSubstr("64 bits"), HasSubstr("string")))
        << text;
  }
  std::string path = folder.write("b.json", "{\"a\": 1}\n{\"a\": 9223372036854775808}");
  EXPECT_EQ(read_json(path).schema()->field(0)->type()->ToString(), "uint64");
  path = folder.write("b.json", "{\"a\": 1}\n{\"a\": 1e400}");
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { read_json(path).to_table(); }),
              HasSubstr("1e400"));
}

TEST(JsonTest, BrokenLinesAreErrorsWithFileAndLine) {
  TextFolder folder;
  struct Case {
    const char* line;
    const char* says;
    ErrorKind kind = ErrorKind::kCorrupt;
  };
  const Case cases[] = {
      {"{\"a\": }", "Invalid value"},
      {"{\"a\": 1", "Missing a comma or '}' after an object member"},
      {"{\"a\": 1} x", "not be followed by other values"},
      {"{\"a\": 1}{\"a\": 2}", "not be followed by other values"},
      {"[1, 2]", "no JSON object"},
      {"7", "no JSON object"},
      {"{\"a\": NaN}", "Invalid value"},
      {"{\"a\": 01}", "Missing a comma"},
      {"{\"b\": \"\xff\"}", "Invalid encoding"},
      {"{\"b\": \"\\ud800\"}", "surrogate pair"},
      {"{\"b\": \"\\udc00x\"}", "surrogate pair"},
      {"{\"a\": 1, \"a\": 2}", "twice"},
      {"{\"a\": \"x\"}", "no \"int64\"", ErrorKind::kInvalidArgument},
      {"{\"a\": 1.5}", "no \"int64\"", ErrorKind::kInvalidArgument},
      {"{\"b\": [1]}", "no \"string\"", ErrorKind::kInvalidArgument},
      {"{\"o\": {\"x\": \"y\"}}", "'o.x' has the value \"y\"", ErrorKind::kInvalidArgument},
      {"{\"o\": {\"z\": 1}}", "in 'o' the field 'z'", ErrorKind::kInvalidArgument},
      {"{\"more\": 1}", "the field 'more'", ErrorKind::kInvalidArgument},
  };
  // The sample must not see the line.
  std::string first = "{\"a\": 1, \"b\": \"x\", \"o\": {\"x\": 1}}\n";
  std::string text;
  while (text.size() < (1 << 20) + first.size()) text += first;
  auto lines = std::count(text.begin(), text.end(), '\n');
  for (const Case& one : cases) {
    std::string path = folder.write("a.json", text + one.line + "\n" + first);
    SCOPED_TRACE(one.line);
    EXPECT_THAT(
        message_of(one.kind, [&] { read_json(path).to_table(); }),
        AllOf(HasSubstr(one.says), HasSubstr(path), HasSubstr(str("line ", lines + 1, ":"))));
    std::string alone = folder.write("b.json", first + one.line);
    if (one.kind == ErrorKind::kCorrupt) {
      EXPECT_THAT(message_of(one.kind, [&] { read_json(alone).to_table(); }),
                  AllOf(HasSubstr(one.says), HasSubstr("line 2:")));
    }
  }
  std::string path = folder.write("a.json", text + "{\"more\": 1, \"o\": {\"z\": [{}]}}\n");
  auto table = read_json(path, {.ignore_unknown_fields = true}).to_table();
  EXPECT_EQ(table->num_rows(), lines + 1);
  EXPECT_EQ(table->num_columns(), 3);
}

TEST(JsonTest, WhatCannotBeReadIsRefused) {
  TextFolder folder;
  auto says = [&](ErrorKind kind, const std::string& text, const std::string& what) {
    std::string path = folder.write("a.json", text);
    EXPECT_THAT(message_of(kind, [&] { read_json(path); }), HasSubstr(what));
  };
  says(ErrorKind::kInvalidArgument, "", "has no lines");
  says(ErrorKind::kInvalidArgument, "\n \n", "has no lines");
  says(ErrorKind::kInvalidArgument, "\xff\xfe{", "UTF-16");
  says(ErrorKind::kInvalidArgument, "\x1f\x8b..", "gzip");
  says(ErrorKind::kInvalidArgument, "{\"a\": 1}\n{\"a\": \"x\"}",
       "line 2: 'a' is a text here, and a number in a line before");
  says(ErrorKind::kInvalidArgument, "{\"o\": [{\"x\": 1}]}\n{\"o\": [{\"x\": {}}]}",
       "line 2: 'o.x' is an object here, and a number");
  says(ErrorKind::kCorrupt, std::string(100, '[') + std::string(100, ']'), "no JSON object");
  std::string deep = "{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  says(ErrorKind::kCorrupt, deep, "deeper than 64");
  std::string path = folder.write("a.json", "{\"fare\": 1}");
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { read_json(path, {.columns = {"far"}}); }),
              AllOf(HasSubstr("far"), HasSubstr("'fare'")));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] {
                           read_json(path, {.column_types = {{"fare", "int"}}});
                         }),
              HasSubstr("no type 'int'"));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] {
                           read_json(path, {.column_types = {{"fare", {{"set", "int64"}}}}});
                         }),
              HasSubstr("is no type"));
}

TEST(JsonTest, FilesThatHaveChangedAreErrors) {
  TextFolder folder;
  std::string path = folder.write("a.json", "{\"a\": 1}\n{\"a\": 2}\n");
  Dataset dataset = read_json(path);
  Json plan = dataset.to_json();
  std::filesystem::remove(path);
  folder.write("a.json", "{\"a\": 1}\n{\"a\": 3}\n");
  for (const auto& one : {dataset, Dataset::from_json(plan)}) {
    EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { one.to_table(); }), HasSubstr("has changed"));
  }
}

TEST(JsonTest, ADamagedPlanIsAnError) {
  TextFolder folder;
  Json plan = read_json(folder.write("a.json", "{\"a\": [{\"b\": 1}]}")).to_json();
  for (const Json& type : {Json("x"), Json(7), Json{{"list", nullptr}}, Json{{"struct", {1}}}}) {
    Json damaged = plan;
    damaged["source"]["types"][0] = type;
    message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(damaged); });
  }
  Json deep = "int64";
  for (int i = 0; i < 70; ++i) deep = {{"list", deep}};
  plan["source"]["types"][0] = deep;
  message_of([&] { Dataset::from_json(plan); });
}

TEST(TextTest, LinesAreRowsHoweverTheFileIsCut) {
  TextFolder folder;
  folder.write("b/2.txt",
               "\xef\xbb\xbf"
               "first\r\nsecond\n\n  third \n\n");
  folder.write("b/1.txt", "one\n\nzwölf");
  folder.write("b/0.md", "not read");
  for (int64_t bytes : {1, 7, 8 << 20}) {
    Dataset dataset = read_text(folder / "b", {.fragment_bytes = bytes});
    std::vector<std::string> lines;
    auto table = dataset.to_table();
    for (const Json& row : rows_as_json(*table)) lines.push_back(row["text"]);
    EXPECT_THAT(lines, ElementsAre("one", "zwölf", "first", "second", "  third "));
    EXPECT_EQ(dataset.count(), 5);
    EXPECT_EQ(read_text(folder / "b", {.drop_empty_lines = false, .fragment_bytes = bytes}).count(),
              8);
    EXPECT_EQ(Dataset::from_json(dataset.to_json()).count(), 5);
  }
  EXPECT_EQ(read_text(folder.write("empty.txt", "")).count(), 0);
}

TEST(TextTest, BytesThatAreNoTextAreAnErrorWithTheLine) {
  TextFolder folder;
  std::string path = folder.write("a.txt", "good\nb\xff\x01\n");
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { read_text(path).to_table(); }),
              AllOf(HasSubstr("line 2"), HasSubstr("UTF-8")));
}

TEST(RangeTest, GivesTheNumbersInOrder) {
  EXPECT_THAT(ints(*range(5).to_table(), "id"), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(range(0).count(), 0);
  EXPECT_EQ(range(0).to_table()->num_rows(), 0);
  Dataset many = range(3'000'001);
  EXPECT_EQ(many.count(), 3'000'001);
  EXPECT_EQ(many.filter(col("id") >= 0).count(), 3'000'001);
  EXPECT_EQ(
      ints(*Dataset::from_json(many.to_json()).filter(col("id") >= 2'999'999).to_table(), "id"),
      (std::vector<int64_t>{2'999'999, 3'000'000}));
  EXPECT_THAT(many.explain(), HasSubstr("range: 3000001 rows"));
  message_of(ErrorKind::kInvalidArgument, [] { range(-1); });
}

}  // namespace
}  // namespace manta::data
