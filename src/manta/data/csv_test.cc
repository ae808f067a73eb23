#include <arrow/api.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "manta/base/error_internal.h"
#include "manta/data/csv_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/data/wide_fixture_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class CsvFolder : public TemporaryFolder {
 public:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(*this / name, std::ios::binary) << text;
    return *this / name;
  }
};

Json value_at(const arrow::Array& column, int64_t row) {
  if (column.IsNull(row)) return nullptr;
  switch (column.type_id()) {
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(column).Value(row);
    case arrow::Type::INT64:
      return static_cast<const arrow::Int64Array&>(column).Value(row);
    case arrow::Type::DOUBLE: {
      double value = static_cast<const arrow::DoubleArray&>(column).Value(row);
      if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
      return value;
    }
    default:
      return static_cast<const arrow::StringArray&>(column).GetString(row);
  }
}

// {"a": [1, 2], "b": ["x", "y"]}
Json values_of(const Dataset& dataset) {
  Json all = Json::object();
  for (const auto& name : dataset.columns()) all[name] = Json::array();
  auto table = dataset.to_table();
  for (const auto& name : dataset.columns()) {
    for (const auto& chunk : table->GetColumnByName(name)->chunks()) {
      for (int64_t row = 0; row < chunk->length(); ++row)
        all[name].push_back(value_at(*chunk, row));
    }
  }
  return all;
}

const Json& odd_files() {
  static const Json cases = Json::parse(
#include "manta/data/expected/csv.inc"
  );
  return cases;
}

ReadCsvOptions options_of(const Json& json) {
  ReadCsvOptions options;
  if (json.contains("delimiter")) options.delimiter = json["delimiter"].get<std::string>()[0];
  if (json.contains("quote")) options.quote = json["quote"].get<std::string>().c_str()[0];
  if (json.contains("null_values")) options.null_values = json["null_values"];
  if (json.contains("column_names")) options.column_names = json["column_names"];
  return options;
}

TEST(CsvTest, OddFilesAreReadAsPandasAndPyarrowDo) {
  CsvFolder folder;
  int number = 0;
  for (const Json& one : odd_files()) {
    std::string path = folder.write(str(number++, ".csv"), one["text"]);
    for (int64_t bytes : {1, 3, 10, 8 << 20}) {
      SCOPED_TRACE(str(one["name"], ", in parts of ", bytes, " bytes"));
      auto options = options_of(one["options"]);
      options.fragment_bytes = bytes;
      Dataset plain = read_csv(path, options);
      Json pyarrow = Json::object();
      for (const auto& [name, column] : one["pyarrow"].items()) {
        EXPECT_EQ(plain.schema()->GetFieldByName(name)->type()->ToString(), column["type"]);
        pyarrow[name] = column["values"];
      }
      EXPECT_EQ(values_of(plain), pyarrow);
      options.strings_can_be_null = true;
      EXPECT_EQ(values_of(read_csv(path, options)), one["pandas"]);
    }
  }
}

TEST(CsvTest, PartsOfAnySizeGiveTheSameRowsInOrder) {
  CsvFolder folder;
  std::mt19937 random(5);
  std::vector<std::string> texts = {"plain", "a,b", "two\nlines", "\"", "", "x\r\ny", "\n\n"};
  std::string file = "id,text,half\n";
  Json expected = {{"id", Json::array()}, {"text", Json::array()}, {"half", Json::array()}};
  for (int i = 0; i < 2000; ++i) {
    std::string text = texts[random() % texts.size()] + str(random() % 100);
    std::string quoted;
    for (char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
    file += str(i, ",\"", quoted, "\",", i, ".5", i % 3 ? "\n" : "\r\n");
    expected["id"].push_back(i);
    expected["text"].push_back(text);
    expected["half"].push_back(i + 0.5);
  }
  std::string path = folder.write("a.csv", file);
  for (int64_t bytes : {10, 100, 1001, 20000}) {
    Dataset dataset = read_csv(path, {.fragment_bytes = bytes});
    EXPECT_EQ(values_of(dataset), expected) << bytes;
    EXPECT_EQ(dataset.count(), 2000);
    EXPECT_EQ(dataset.filter(col("id") >= 1990).count(), 10);
    Dataset read_back = Dataset::from_json(Json::parse(dataset.to_json().dump()));
    EXPECT_EQ(values_of(read_back), expected);
    auto [train, test] = dataset.train_test_split(0.25, {.shuffle = true, .seed = 3});
    EXPECT_EQ(train.count(), 1500);
    EXPECT_EQ(test.count(), 500);
    auto ids = ints(*train.to_table(), "id");
    for (int64_t id : ints(*test.to_table(), "id")) ids.push_back(id);
    std::sort(ids.begin(), ids.end());
    ASSERT_EQ(ids.size(), 2000u);
    for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], static_cast<int64_t>(i));
    auto [first, last] = dataset.train_test_split(int64_t{3});
    EXPECT_THAT(ints(*last.to_table(), "id"), ElementsAre(1997, 1998, 1999));
  }
  EXPECT_GT(read_csv(path, {.fragment_bytes = 100}).plan()->source->fragments().size(), 100u);
}

TEST(CsvTest, ColumnsAndTypesCanBeChosen) {
  CsvFolder folder;
  std::string path =
      folder.write("a.csv", "zip,day,n,f\n01234,2020-01-31,1,2\n55555,2020-02-01,2,3\n");
  Dataset inferred = read_csv(path);
  EXPECT_EQ(inferred.schema()->field(0)->type()->ToString(), "int64");
  EXPECT_EQ(inferred.schema()->field(1)->type()->ToString(), "date32[day]");
  Dataset chosen = read_csv(
      path, {.columns = {"f", "zip"}, .column_types = {{"zip", "string"}, {"f", "float32"}}});
  EXPECT_THAT(chosen.columns(), ElementsAre("f", "zip"));
  EXPECT_EQ(chosen.schema()->field(0)->type()->ToString(), "float");
  EXPECT_EQ(values_of(chosen.select_columns({"zip"})), Json({{"zip", {"01234", "55555"}}}));
  EXPECT_THAT(chosen.explain(),
              AllOf(HasSubstr("read_csv: 1 files in 1 parts"), HasSubstr("about")));
  Dataset read_back = Dataset::from_json(chosen.to_json());
  EXPECT_TRUE(read_back.schema()->Equals(chosen.schema()));
}

std::string type_of(const Dataset& dataset, const std::string& column) {
  return dataset.schema()->GetFieldByName(column)->type()->ToString();
}

TEST(CsvTest, IntegersAreNotRounded) {
  CsvFolder folder;
  std::string path = folder.write("a.csv",
                                  "id,name,mixed,real\n"
                                  "18446744073709551615,123456789012345678901234567890,-1,1e30\n"
                                  "NA,,9223372036854775808,123456789012345678901234567890\n"
                                  "1,+2,NA,0.5\n");
  Dataset dataset = read_csv(path);
  EXPECT_EQ(type_of(dataset, "id"), "uint64");
  EXPECT_EQ(type_of(dataset, "name"), "string");
  EXPECT_EQ(type_of(dataset, "mixed"), "string");
  EXPECT_EQ(type_of(dataset, "real"), "double");
  EXPECT_EQ(values_of(dataset.select_columns({"name"}))["name"][0],
            "123456789012345678901234567890");
  Dataset chosen = read_csv(path, {.column_types = {{"name", "float64"}}});
  EXPECT_EQ(values_of(chosen.select_columns({"name"}))["name"],
            Json({123456789012345678901234567890., nullptr, 2.}));
}

TEST(CsvTest, DecimalsHaveAllTheirDigitsOrAreErrors) {
  CsvFolder folder;
  auto reading = [&](const std::string& text, const char* type) {
    return read_csv(folder.write("a.csv", "a,b\n" + text + ",1\nNA,2\n"),
                    {.column_types = {{"a", type}}})
        .to_table();
  };
  for (const char* type : {"decimal128(10, 2)", "decimal128(38, 2)", "decimal256(50, 2)"}) {
    EXPECT_EQ(scalar_text(*reading(" +1.5", type), "a", 0), "1.50") << type;
    EXPECT_EQ(scalar_text(*reading("-125e-2", type), "a", 0), "-1.25") << type;
    EXPECT_EQ(reading("\".5\"", type)->column(0)->null_count(), 1) << type;
    for (const char* text : {"1e-100", "1e100", "0.001", "1e+-1", "x", "."}) {
      EXPECT_THAT(message_of([&] { reading(text, type); }), HasSubstr(text)) << type;
    }
  }
  EXPECT_THAT(message_of([&] { reading("12345678901", "decimal128(38, 30)"); }),
              HasSubstr("12345678901"));
}

TEST(CsvTest, TypesAreThoseOfTheFirstFileWithRows) {
  CsvFolder folder;
  folder.write("a.csv", "id,x\n");
  folder.write("b.csv", "id,x\n1,2.5\n");
  Dataset dataset = read_csv(folder.path());
  EXPECT_EQ(type_of(dataset, "id"), "int64");
  EXPECT_EQ(values_of(dataset), Json({{"id", {1}}, {"x", {2.5}}}));
  folder.write("a.csv", "x,id\n");
  EXPECT_THAT(message_of([&] { read_csv(folder.path()); }),
              AllOf(HasSubstr("b.csv' has the columns id, x"), HasSubstr("a.csv")));
}

TEST(CsvTest, NullsAndEmptyTextsCanBeToldApart) {
  CsvFolder folder;
  Dataset dataset =
      from_items({{{"n", 1}, {"t", nullptr}}, {{"n", 2}, {"t", ""}}, {{"n", 3}, {"t", "NA"}}});
  dataset.write_csv(folder.path());
  ReadCsvOptions options = {.strings_can_be_null = true, .quoted_can_be_null = false};
  EXPECT_TRUE(read_csv(folder.path(), options).to_table()->Equals(*dataset.to_table()));
  Dataset read_back = Dataset::from_json(read_csv(folder.path(), options).to_json());
  EXPECT_TRUE(read_back.to_table()->Equals(*dataset.to_table()));
}

TEST(CsvTest, FilesOfAFolderFollowEachOther) {
  CsvFolder folder;
  folder.write("b.csv", "id\n3\n");
  folder.write("a.csv", "id\n1\n2");
  folder.write("empty.csv", "id\n");
  folder.write("c.txt", "other\n");
  EXPECT_THAT(ints(*read_csv(folder.path()).to_table(), "id"), ElementsAre(1, 2, 3));
  EXPECT_THAT(ints(*read_csv({folder / "b.csv", folder / "a.csv"}).to_table(), "id"),
              ElementsAre(3, 1, 2));
  EXPECT_EQ(read_csv(folder / "[ab].csv").count(), 3);
  folder.write("z.csv", "id,more\n4,5\n");
  EXPECT_THAT(message_of([&] { read_csv(folder.path()).count(); }),
              AllOf(HasSubstr("z.csv' has the columns id, more"), HasSubstr("a.csv")));
}

TEST(CsvTest, ABadLineIsNamed) {
  CsvFolder folder;
  std::string good = "a,b\n1,\"x\ny\"\n\n2,z\n";  // 6 lines, the last one empty
  std::string path = folder.write("a.csv", good + "3,p,q\n4,r\n");
  for (int64_t bytes : {1, 12, 8 << 20}) {
    Error error = error_of([&] { read_csv(path, {.fragment_bytes = bytes}).to_table(); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("a.csv', line 6: 2 values were expected"),
                                    HasSubstr("there are 3: 3,p,q")));
  }
  // Beyond the sample, so that only reading rows finds it.
  std::string many = "a,b\r\n";
  for (int i = 0; i < 200000; ++i) many += "1,2\r\n";
  path = folder.write("b.csv", many + "7\r\n");
  Dataset dataset = read_csv(path, {.fragment_bytes = 100000});
  EXPECT_THAT(message_of([&] { dataset.count(); }),
              AllOf(HasSubstr("b.csv', line 200002:"), HasSubstr("there are 1: 7")));
  path = folder.write("c.csv", "a,b\n1,2\n3,\"4\n5,6\n");
  EXPECT_THAT(message_of([&] { read_csv(path).to_table(); }),
              AllOf(HasSubstr("c.csv', line 3"), HasSubstr("quote")));
  path = folder.write("d.csv", "a,\"b\n1,2\n3,4\n");
  EXPECT_THAT(message_of([&] { read_csv(path); }),
              AllOf(HasSubstr("d.csv', line 1"), HasSubstr("never closed")));
}

// It may hold all the rest of a large file.
TEST(CsvTest, AQuoteThatIsNeverClosedDoesNotTakeAllMemory) {
  CsvFolder folder;
  std::string path = folder.write("a.csv", "a,b\n1,\"x\n");
  std::filesystem::resize_file(path, int64_t{1} << 40);  // zeros, which take no space
  EXPECT_THAT(message_of([&] { read_csv(path); }),
              AllOf(HasSubstr("a.csv', line 2"), HasSubstr("does not end within 256 MiB")));
}

TEST(CsvTest, TheTypeThatAMessageAdvisesTakesTheValue) {
  struct {
    std::string first, later, type;
  } cases[] = {{"1", "1.5", "float64"},
               {"1", "x", "string"},
               {"1", "98765432109876543210", "string"},
               {"2020-01-31", "2020-01-31 08:00:00", "timestamp[s]"},
               {"2020-01-31 08:00:00", "2020-01-31 08:00:00.5", "timestamp[ns]"},
               {"2020-01-31 08:00:00Z", "2020-01-31 08:00:00.5Z", "timestamp[ns, tz=UTC]"},
               {"NA", "7", "int64"},
               {"x", "\xff", "binary"},
               {"true", "maybe", "string"}};
  CsvFolder folder;
  for (const auto& one : cases) {
    std::string text = "a\n";
    while (text.size() < 1100000) text += one.first + "\n";
    std::string path = folder.write("a.csv", text + one.later + "\n");
    EXPECT_THAT(message_of([&] { read_csv(path).to_table(); }),
                HasSubstr(str("{{\"a\", \"", one.type, "\"}}")));
    EXPECT_GT(read_csv(path, {.column_types = {{"a", one.type}}}).to_table()->num_rows(), 10000);
  }
}

TEST(CsvTest, AValueOfAnotherTypeIsNamed) {
  CsvFolder folder;
  std::string many = "a,b\n";
  for (int i = 0; i < 300000; ++i) many += str(i, ",x\n");
  std::string path = folder.write("a.csv", many + "\n1.5,y\n2,z\n");
  for (int64_t bytes : {100000, 64 << 20}) {
    Error error = error_of([&] { read_csv(path, {.fragment_bytes = bytes}).to_table(); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("a.csv', line 300003: column 'a' has the value '1.5'"),
                      HasSubstr("no int64"), HasSubstr("{{\"a\", \"float64\"}}")));
  }
  EXPECT_EQ(read_csv(path, {.column_types = {{"a", "float64"}}}).count(), 300002);
  // Columns that are not needed are not parsed.
  EXPECT_EQ(read_csv(path).select_columns({"b"}).to_table()->num_rows(), 300002);
  path = folder.write("b.csv", "a\nx\n");
  EXPECT_THAT(message_of([&] {
                read_csv(path, {.column_types = {{"a", "bool"}}}).to_table();
              }),
              AllOf(HasSubstr("line 2"), HasSubstr("'x'"), HasSubstr("as .column_types says")));
  path = folder.write("c.csv", "a\n\xff\xfe\n");
  EXPECT_EQ(read_csv(path).schema()->field(0)->type()->ToString(), "binary");
  EXPECT_THAT(message_of([&] {
                read_csv(path, {.column_types = {{"a", "string"}}}).to_table();
              }),
              HasSubstr("line 2: column 'a' has the value '\\xff\\xfe'"));
}

TEST(CsvTest, WhatCannotBeReadIsAnErrorThatSaysWhy) {
  CsvFolder folder;
  std::string path = folder.write("a.csv", "a,b\n1,2\n");
  auto reading = [&](const std::string& file, const ReadCsvOptions& options = {}) {
    return error_of([&] { read_csv(file, options); });
  };
  EXPECT_THAT(reading("nosuch://bucket/a.csv").what(), HasSubstr("nosuch://bucket"));
  EXPECT_EQ(reading(folder / "none.csv").kind(), ErrorKind::kNotFound);
  EXPECT_THAT(reading(folder.write("empty.csv", "")).what(), HasSubstr("is empty"));
  EXPECT_THAT(reading(folder.write("lines.csv", "\n\n")).what(), HasSubstr("has no records"));
  EXPECT_THAT(reading(folder.write("twice.csv", "a,a\n1,2\n")).what(),
              AllOf(HasSubstr("twice.csv"), HasSubstr("'a' is named twice")));
  EXPECT_THAT(reading(folder.write("zip.csv", "\x1f\x8b...")).what(), HasSubstr("gzip"));
  EXPECT_THAT(reading(folder.write("wide.csv", std::string("\xff\xfe"
                                                           "a\0",
                                                           4)))
                  .what(),
              HasSubstr("UTF-16"));
  EXPECT_THAT(
      reading(folder.write("wide2.csv", std::string("a\0,\0b\0\n\0001\0,\0002\0\n\0", 16))).what(),
      HasSubstr("no UTF-8 text"));
  EXPECT_THAT(reading(folder.write("latin.csv",
                                   "gr\xf6\xdf"
                                   "e,b\n1,2\n"))
                  .what(),
              AllOf(HasSubstr("gr\\xf6\\xdfe"), HasSubstr("no UTF-8 text")));
  EXPECT_THAT(reading(path, {.columns = {"c"}}).what(), HasSubstr("no column 'c'"));
  EXPECT_THAT(reading(path, {.column_types = {{"c", "int64"}}}).what(), HasSubstr("no column 'c'"));
  EXPECT_THAT(reading(path, {.column_types = {{"a", "number"}}}).what(),
              AllOf(HasSubstr("no type 'number'"), HasSubstr("float64")));
  EXPECT_THAT(reading(path, {.delimiter = '"'}).what(), HasSubstr(".delimiter"));
  EXPECT_THAT(reading(path, {.delimiter = '\n'}).what(), HasSubstr(".delimiter"));
  EXPECT_THAT(reading(path, {.fragment_bytes = 0}).what(), HasSubstr(".fragment_bytes"));
}

TEST(CsvTest, AFileThatHasChangedIsNotRead) {
  CsvFolder folder;
  std::string path = folder.write("a.csv", "a\n1\n2\n");
  Dataset dataset = read_csv(path);
  Json stored = dataset.to_json();
  std::filesystem::last_write_time(
      path, std::filesystem::last_write_time(path) - std::chrono::seconds(5));
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { dataset.count(); }), HasSubstr("has changed"));
  EXPECT_EQ(Dataset::from_json(stored).count(), 2);
  folder.write("a.csv", "a\n1\n3\n");
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { Dataset::from_json(stored).count(); }),
              HasSubstr("first or last bytes"));
  folder.write("a.csv", "a\n1\n");
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { Dataset::from_json(stored).count(); }),
              HasSubstr("it had 6 bytes and has 4"));
}

TEST(CsvTest, AChangeInTheMiddleOfAFileIsSeen) {
  CsvFolder folder;
  std::string text = "a,b\n";
  while (text.size() < 500000) text += "1,2\n";
  std::string path = folder.write("a.csv", text);
  for (int64_t bytes : {50000, 8 << 20}) {
    Json stored = read_csv(path, {.fragment_bytes = bytes}).to_json();
    text[text.size() / 2 / 4 * 4] = '9';
    folder.write("a.csv", text);
    EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { Dataset::from_json(stored).to_table(); }),
                AllOf(HasSubstr("has changed"), HasSubstr("its bytes ")));
    text[text.size() / 2 / 4 * 4] = '1';
    folder.write("a.csv", text);
    EXPECT_EQ(Dataset::from_json(stored).to_table()->num_rows(), 124999);
  }
}

TEST(CsvTest, AStoredPlanIsChecked) {
  CsvFolder folder;
  Json good = read_csv(folder.write("a.csv", "a,b\n1,2\n")).to_json();
  EXPECT_EQ(Dataset::from_json(good).count(), 1);
  auto with = [&](const std::string& pointer, const Json& value) {
    Json bad = good;
    bad["source"][Json::json_pointer(pointer)] = value;
    return message_of([&] { Dataset::from_json(bad); });
  };
  EXPECT_THAT(with("/delimiter", ",,"), HasSubstr("delimiter"));
  EXPECT_THAT(with("/types/0", "complex"), HasSubstr("no type 'complex'"));
  EXPECT_THAT(with("/types", {"int64"}), HasSubstr("types"));
  EXPECT_THAT(with("/columns", {"c"}), HasSubstr("columns"));
  EXPECT_THAT(with("/files", Json::array()), HasSubstr("files"));
  EXPECT_THAT(with("/files/0/path", "a.csv"), HasSubstr("absolute"));
  EXPECT_THAT(with("/files/0/offsets", {0, 100}), HasSubstr("offsets"));
  EXPECT_THAT(with("/files/0/offsets", {4, 4}), HasSubstr("offsets"));
  EXPECT_THAT(with("/files/0/offsets", {-1}), HasSubstr("offsets"));
  EXPECT_THAT(with("/files/0/checksums", Json::array()), HasSubstr("checksums"));
  EXPECT_THAT(with("/sample_bytes", 0), HasSubstr("sample_bytes"));
}

}  // namespace
}  // namespace manta::data
