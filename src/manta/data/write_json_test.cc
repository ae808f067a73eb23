// write_json and write_numpy.

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Dataset one_column(const std::shared_ptr<arrow::DataType>& type, const Json& values) {
  return from_arrow(arrow::Table::Make(arrow::schema({arrow::field("x", type)}),
                                       {array_from_json(type, values)}));
}

TEST(WriteJsonTest, WhatIsWrittenIsReadAgain) {
  ParquetFolder folder;
  Dataset rows = read_parquet(folder.write_rows("in.parquet", 0, 100, 30));
  EXPECT_EQ(rows.write_json(folder / "out", {.rows_per_file = 60}), 100);
  EXPECT_TRUE(std::filesystem::exists(folder / "out/part-00001.jsonl"));
  EXPECT_TRUE(read_json(folder / "out").to_table()->Equals(*rows.to_table()));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { rows.write_json(folder / "out"); }),
              AllOf(HasSubstr("write_json"), HasSubstr("2 files *.jsonl already")));
  EXPECT_EQ(rows.limit(5).write_json(folder / "out", {.overwrite = true}), 5);
  EXPECT_EQ(read_json(folder / "out").count(), 5);
  EXPECT_EQ(rows.filter(col("id") < 0).write_json(folder / "none"), 0);
  EXPECT_EQ(text_of(folder / "none/part-00000.jsonl"), "");
}

// With .column_types, written values come back unchanged.
TEST(WriteJsonTest, EveryTypeThatHasANameIsReadAgainAlsoFromCsv) {
  struct {
    const char* type;
    Json values;
  } cases[] = {
      {"bool", {true, nullptr}},
      {"int8", {-128, nullptr}},
      {"uint64", {UINT64_MAX, nullptr}},
      {"float16", {1.5, nullptr, -65504}},
      {"float32", {0.5, nullptr}},
      {"decimal128(10, 2)", {"-12345678.90", nullptr, "0.05"}},
      {"decimal128(38, 0)", {"12345678901234567890123456789012345678", nullptr}},
      {"decimal256(60, 2)",
       {"1234567890123456789012345678901234567890123456789012345678.90", nullptr, "-0.01"}},
      {"string", {"a", nullptr}},
      {"large_string", {"a", nullptr}},
      {"large_binary", {"a", nullptr}},
      {"date32", {18262, nullptr}},
      {"date64", {86400000, nullptr}},
      {"time32[s]", {7, nullptr}},
      {"time32[ms]", {7, nullptr}},
      {"time64[us]", {7, nullptr}},
      {"time64[ns]", {7, nullptr}},
      {"timestamp[us]", {"2020-01-31 08:30:00.5", nullptr}},
      {"timestamp[ns, tz=UTC]", {"2020-01-31 08:30:00.5", nullptr}},
      {"timestamp[ms, tz=Europe/Berlin]", {"2020-01-31 08:30:00.5", nullptr}},
      {"duration[s]", {-90, nullptr}},
      {"duration[ns]", {90, nullptr}}};
  ParquetFolder folder;
  int number = 0;
  for (const auto& one : cases) {
    SCOPED_TRACE(one.type);
    auto type = type_by_name(one.type, "a test");
    auto column = array_from_json(type, one.values);
    std::vector<int64_t> id(static_cast<size_t>(column->length()), 1);
    auto table = arrow::Table::Make(
        arrow::schema({arrow::field("x", type), arrow::field("id", arrow::int64())}),
        {column, array_from_json(arrow::int64(), id)});
    std::string json = folder / str("json", number), csv = folder / str("csv", number++);
    from_arrow(table).write_json(json);
    Dataset lines = read_json(json, {.column_types = {{"x", one.type}}});
    EXPECT_TRUE(lines.to_table()->Equals(*table)) << lines.to_table()->ToString();
    EXPECT_TRUE(Dataset::from_json(lines.to_json()).to_table()->Equals(*table));
    from_arrow(table).write_csv(csv);
    bool text = std::string_view(one.type).find("string") != std::string_view::npos ||
                std::string_view(one.type).find("binary") != std::string_view::npos;
    Dataset records =
        read_csv(csv, {.column_types = {{"x", one.type}}, .strings_can_be_null = text});
    EXPECT_TRUE(records.to_table()->Equals(*table)) << records.to_table()->ToString();
    EXPECT_TRUE(Dataset::from_json(records.to_json()).to_table()->Equals(*table));
  }
  // A value that does not fit is not rounded.
  const std::pair<const char*, const char*> bad[] = {
      {"decimal128(5, 2)", "1.505"}, {"decimal128(5, 2)", "1000"}, {"float16", "70000"},
      {"decimal256(50, 1)", "0.25"}, {"duration[s]", "1.5"},       {"time32[ms]", "0.5"}};
  for (const auto& [type, value] : bad) {
    SCOPED_TRACE(type);
    std::ofstream(folder / "bad.json") << "{\"x\": " << value << "}\n";
    std::ofstream(folder / "bad.csv") << "x\n" << value << "\n";
    auto refused = [&](const Dataset& rows) {
      EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { rows.to_table(); }),
                  AllOf(HasSubstr("'x'"), HasSubstr(value), HasSubstr(type)));
    };
    refused(read_json(folder / "bad.json", {.column_types = {{"x", type}}}));
    refused(read_csv(folder / "bad.csv", {.column_types = {{"x", type}}}));
  }
}

// Each value as JSON has it.
TEST(WriteJsonTest, EveryTypeIsWritten) {
  ParquetFolder folder;
  auto micro = arrow::timestamp(arrow::TimeUnit::MICRO);
  auto codes = check(arrow::DictionaryArray::FromArrays(array_from_json(arrow::int8(), {1, 0}),
                                                        array_from_json(arrow::utf8(), {"x", "y"})),
                     "a test column");
  struct {
    std::shared_ptr<arrow::Array> column;
    std::string first, second;
  } cases[] = {
      {array_from_json(arrow::boolean(), {true, nullptr}), "true", "null"},
      {array_from_json(arrow::int8(), {-128, 1}), "-128", "1"},
      {array_from_json(arrow::uint64(), {UINT64_MAX, 0}), "18446744073709551615", "0"},
      {array_from_json(arrow::float64(), {0.1, 3}), "0.1", "3.0"},
      {array_from_json(arrow::float64(), {1e300, -0.0}), "1e+300", "-0.0"},
      {array_from_json(arrow::float32(), {0.1, 16777216}), "0.1", "16777216.0"},
      {array_from_json(arrow::utf8(), {"a\"b\\c\n\t\x01", "\xc3\xb6"}),
       "\"a\\\"b\\\\c\\n\\t\\u0001\"", "\"\xc3\xb6\""},
      {array_from_json(arrow::date32(), {18262, 0}), "\"2020-01-01\"", "\"1970-01-01\""},
      {array_from_json(micro, {"2020-01-01 08:30:00.5", nullptr}), "\"2020-01-01 08:30:00.500000\"",
       "null"},
      {array_from_json(arrow::duration(arrow::TimeUnit::SECOND), {90, 0}), "90", "0"},
      {array_from_json(arrow::decimal128(5, 2), {"1.50", "-0.05"}), "1.50", "-0.05"},
      {codes, "\"y\"", "\"x\""},
      {array_from_json(arrow::list(arrow::int32()), Json::parse("[[1, null], []]")), "[1,null]",
       "[]"},
      {array_from_json(arrow::fixed_size_list(arrow::float32(), 2),
                       Json::parse("[[1, 2.5], null]")),
       "[1.0,2.5]", "null"},
      {array_from_json(
           arrow::struct_({arrow::field("a", arrow::int8()), arrow::field("b", arrow::utf8())}),
           Json::parse("[{\"a\": 1, \"b\": null}, null]")),
       "{\"a\":1,\"b\":null}", "null"},
      {array_from_json(arrow::map(arrow::utf8(), arrow::int32()),
                       Json::parse("[[[\"k\", 1]], []]")),
       "[{\"key\":\"k\",\"value\":1}]", "[]"},
      {array_from_json(arrow::null(), {nullptr, nullptr}), "null", "null"},
  };
  int number = 0;
  for (const auto& one : cases) {
    auto table =
        arrow::Table::Make(arrow::schema({arrow::field("x", one.column->type())}), {one.column});
    SCOPED_TRACE(one.column->type()->ToString());
    std::string out = folder / str("out", number++);
    // In slices, whose values do not begin at 0.
    from_arrow(table).write_json(out, {.rows_per_file = 1});
    EXPECT_EQ(text_of(out + "/part-00000.jsonl"), str("{\"x\":", one.first, "}\n"));
    EXPECT_EQ(text_of(out + "/part-00001.jsonl"), str("{\"x\":", one.second, "}\n"));
  }
}

TEST(WriteJsonTest, WhatJsonDoesNotHaveIsRefused) {
  ParquetFolder folder;
  auto refused = [&](const Dataset& rows) {
    return message_of(ErrorKind::kInvalidArgument, [&] { rows.write_json(folder / "out"); });
  };
  Dataset nan = range(2).with_column("x", lit(0.0) / (col("id") * 0));
  EXPECT_THAT(refused(nan),
              AllOf(HasSubstr("write_json"), HasSubstr("column 'x' has the value NaN"),
                    HasSubstr(".nan_as_null")));
  EXPECT_EQ(nan.write_json(folder / "nan", {.nan_as_null = true}), 2);
  EXPECT_EQ(text_of(folder / "nan/part-00000.jsonl"),
            "{\"id\":0,\"x\":null}\n{\"id\":1,\"x\":null}\n");
  arrow::BinaryBuilder bytes;
  check(bytes.Append("\xff"), "bytes");
  auto binary = check(bytes.Finish(), "bytes");
  EXPECT_THAT(refused(from_arrow(arrow::Table::Make(
                  arrow::schema({arrow::field("b", arrow::binary())}), {binary}))),
              AllOf(HasSubstr("'b'"), HasSubstr("not UTF-8")));
  EXPECT_THAT(refused(one_column(arrow::month_interval(), {1})),
              AllOf(HasSubstr("month_interval"), HasSubstr("'x'")));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "out"));
}

TEST(WriteNumpyTest, WhatIsWrittenIsReadAgain) {
  ParquetFolder folder;
  struct {
    std::shared_ptr<arrow::DataType> type;
    Json values;
  } cases[] = {{arrow::int64(), {1, -2, 3}},
               {arrow::uint8(), {0, 255, 7}},
               {arrow::float32(), {0.5, -1, 1e30}},
               {arrow::boolean(), {true, false, true}},
               {arrow::fixed_size_list(arrow::int16(), 2), Json::parse("[[1, 2], [3, 4], [5, 6]]")},
               {arrow::fixed_size_list(arrow::fixed_size_list(arrow::boolean(), 2), 1),
                Json::parse("[[[true, false]], [[false, false]], [[true, true]]]")}};
  int number = 0;
  for (const auto& one : cases) {
    SCOPED_TRACE(one.type->ToString());
    std::string out = folder / str("out", number++);
    Dataset rows = one_column(one.type, one.values).with_column("other", col("x").is_null());
    EXPECT_EQ(rows.write_numpy(out, {.column = "x", .rows_per_file = 2}), 3);
    auto again = read_numpy(out).to_table();
    EXPECT_TRUE(check(again->CombineChunksToBatch(), "")
                    ->column(0)
                    ->Equals(*array_from_json(one.type, one.values)))
        << again->ToString();
  }
  EXPECT_EQ(range(0).write_numpy(folder / "none"), 0);
  EXPECT_EQ(read_numpy(folder / "none").count(), 0);
}

TEST(WriteNumpyTest, MistakesAreNamed) {
  ParquetFolder folder;
  auto refused = [&](ErrorKind kind, const Dataset& rows, const std::string& column = "") {
    return message_of(kind, [&] { rows.write_numpy(folder / "out", {.column = column}); });
  };
  auto invalid = ErrorKind::kInvalidArgument;
  Dataset two = range(3).with_column("t", "text");
  EXPECT_THAT(refused(invalid, two),
              AllOf(HasSubstr("write_numpy"), HasSubstr("id, t"), HasSubstr(".column")));
  EXPECT_THAT(refused(ErrorKind::kNotFound, two, "idd"), HasSubstr("'id'"));
  EXPECT_THAT(refused(invalid, two, "t"),
              AllOf(HasSubstr("'t' is of type string"), HasSubstr("cast")));
  EXPECT_THAT(refused(invalid, one_column(arrow::int64(), {1, nullptr})), HasSubstr("fill_na"));
  EXPECT_THAT(refused(invalid, one_column(arrow::fixed_size_list(arrow::int64(), 1),
                                          Json::parse("[[null]]"))),
              HasSubstr("has nulls"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "out"));
}

}  // namespace
}  // namespace manta::data
