// Columns whose values are in the names of folders.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/s3_server_internal.h"
#include "manta/data/sources.h"
#include "manta/data/text_folder_internal.h"
#include "manta/data/wide_fixture_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class PartitionsTest : public testing::Test {
 protected:
  PartitionsTest() {
    add("year=2019/city=a%20b", 0);
    add("year=2020/city=c", 10);
    add("year=2020/city=__HIVE_DEFAULT_PARTITION__", 20);
  }
  void add(const std::string& folder, int64_t first) {
    std::filesystem::create_directories(folder_ / ("t/" + folder));
    folder_.write_rows("t/" + folder + "/x.parquet", first, 10, 5);
  }
  std::string root() const { return folder_ / "t"; }

  ParquetFolder folder_;
};

TEST_F(PartitionsTest, FoldersAreColumns) {
  Dataset rows = read_parquet(root());
  EXPECT_EQ(describe_columns(*rows.schema()),
            "id: int64, half: double, text: string, year: int64, city: string");
  auto table = rows.sort("id").to_table();
  EXPECT_EQ(scalar_text(*table, "year", 9), "2019");
  EXPECT_EQ(scalar_text(*table, "city", 9), "a b");
  EXPECT_EQ(scalar_text(*table, "city", 10), "c");
  EXPECT_EQ(scalar_text(*table, "city", 29), "null");
  EXPECT_EQ(rows.count(), 30);
  EXPECT_THAT(read_parquet(root(), {.columns = {"city", "id"}}).columns(),
              ElementsAre("city", "id"));
  EXPECT_EQ(read_parquet(root(), {.columns = {"year"}}).filter(col("year") == 2020).count(), 20);
  EXPECT_THAT(read_parquet(root(), {.hive_partitions = false}).columns(),
              ElementsAre("id", "half", "text"));
  auto loaded = Dataset::from_json(Json::parse(rows.to_json().dump()));
  EXPECT_TRUE(loaded.to_table()->Equals(*rows.to_table()));
  EXPECT_EQ(loaded.explain(), rows.explain());
}

TEST_F(PartitionsTest, FiltersRuleOutFiles) {
  Dataset rows = read_parquet(root());
  auto of_2019 = rows.filter(col("year") < 2020 && col("id") >= 5);
  EXPECT_THAT(of_2019.explain(), HasSubstr("skips 5 of 6 fragments"));
  EXPECT_THAT(ints(*of_2019.to_table(), "id"), ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(rows.filter(col("city").is_in({"c"})).explain(), HasSubstr("skips 4 of 6 fragments"));
  EXPECT_EQ(rows.filter(col("city").is_null()).count(), 10);
  EXPECT_EQ(rows.filter(col("city") != "c").count(), 10);
  EXPECT_EQ(rows.with_column("year", col("id")).filter(col("year") < 5).count(), 5);
}

TEST_F(PartitionsTest, WhatIsNamedDecidesWhatIsBelow) {
  EXPECT_THAT(read_parquet(root() + "/year=2019").columns(),
              ElementsAre("id", "half", "text", "city"));
  EXPECT_THAT(read_parquet(root() + "/year=*/city=c").columns(),
              ElementsAre("id", "half", "text", "year", "city"));
  EXPECT_EQ(read_parquet(root() + "/year=*/city=c").count(), 10);
  EXPECT_THAT(read_parquet(root() + "/year=2020/city=c/x.parquet").columns(),
              ElementsAre("id", "half", "text"));
  EXPECT_THAT(read_parquet(root() + "/").columns(),
              ElementsAre("id", "half", "text", "year", "city"));
  std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(root());
  EXPECT_THAT(read_parquet("year=2020").columns(), ElementsAre("id", "half", "text", "city"));
  EXPECT_THAT(read_parquet("*").columns(), ElementsAre("id", "half", "text", "year", "city"));
  EXPECT_THAT(read_parquet(".").columns(), ElementsAre("id", "half", "text", "year", "city"));
  std::filesystem::current_path(before);
}

TEST_F(PartitionsTest, MistakesAreNamed) {
  auto invalid = [&](auto call) { return message_of(ErrorKind::kInvalidArgument, call); };
  add("other", 90);
  EXPECT_THAT(invalid([&] { read_parquet(root()); }),
              AllOf(HasSubstr("read_parquet"), HasSubstr("{year, city}"),
                    HasSubstr(".hive_partitions = false")));
  std::filesystem::remove_all(root());
  add("id=3", 0);
  EXPECT_THAT(invalid([&] { read_parquet(root()); }),
              AllOf(HasSubstr("has a column 'id'"), HasSubstr("'id=...'")));
  EXPECT_THAT(invalid([&] {
                read_parquet(root(), {.columns = {"id", "half"}});
              }),
              AllOf(HasSubstr("has a column 'id'"), HasSubstr("'id=...'")));
  EXPECT_EQ(read_parquet(root(), {.columns = {"half"}}).count(), 10);
  EXPECT_EQ(
      read_parquet(root(), {.columns = {"id"}, .hive_partitions = false}).max("id")->ToString(),
      "9");
  std::filesystem::remove_all(root());
  add("a=1/a=2", 0);
  EXPECT_THAT(invalid([&] { read_parquet(root()); }), HasSubstr("twice"));
}

TEST(PartitionsOfTextTest, CsvAndJsonHaveThemToo) {
  TextFolder folder;
  folder.write("c/k=01/a.csv", "x\n1\n2\n");
  folder.write("c/k=x/a.csv", "x\n3\n");
  Dataset csv = read_csv(folder / "c");
  EXPECT_EQ(describe_columns(*csv.schema()), "x: int64, k: string");
  EXPECT_THAT(ints(*csv.filter(col("k") == "x").to_table(), "x"), ElementsAre(3));
  folder.write("j/k=1/a.jsonl", "{\"x\": 1}\n");
  folder.write("j/k=-2/a.jsonl", "{\"x\": 3}\n");
  Dataset json = read_json(folder / "j", {.columns = {"k", "x"}});
  EXPECT_EQ(describe_columns(*json.schema()), "k: int64, x: int64");
  EXPECT_THAT(ints(*json.filter(col("k") < 0).to_table(), "x"), ElementsAre(3));
  EXPECT_TRUE(Dataset::from_json(json.to_json()).to_table()->Equals(*json.to_table()));
  folder.write("both/x=1/a.csv", "x,y\n1,2\n");
  folder.write("both/x=1/a.jsonl", "{\"x\": 1, \"y\": 2}\n");
  auto names_both = AllOf(HasSubstr("has a column 'x'"), HasSubstr("'x=...'"));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] {
                           read_csv(folder / "both", {.columns = {"x", "y"}});
                         }),
              names_both);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] {
                           read_json(folder / "both", {.columns = {"y", "x"}});
                         }),
              names_both);
}

TEST(PartitionsOfTextTest, OnS3) {
  S3Server server;
  range(10).write_parquet(server.address("t/year=2020"));
  range(20).write_parquet(server.address("t/year=2021"));
  EXPECT_EQ(read_parquet(server.address("t")).filter(col("year") == 2021).count(), 20);
  EXPECT_EQ(read_parquet(server.address("t/year=*")).filter(col("year") == 2020).count(), 10);
  range(30).write_json(server.address("j"), {.rows_per_file = 20});
  EXPECT_EQ(read_json(server.address("j")).count(), 30);
  range(30).write_numpy(server.address("n"), {.rows_per_file = 20});
  EXPECT_EQ(ints(*read_numpy(server.address("n")).to_table(), "data").back(), 29);
}

}  // namespace
}  // namespace manta::data
