#include <arrow/api.h>
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "manta/data/feed_fixture_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/data/wide_fixture_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class SqlTest : public testing::Test {
 protected:
  // Runs statements on the file, which is made if it is not there.
  void run(const std::string& sql) const {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &database), SQLITE_OK);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
    sqlite3_free(error);
    sqlite3_close(database);
  }
  std::string path() const { return folder_ / "a.db"; }
  std::string refused(ErrorKind kind, const std::string& query,
                      const ReadSqlOptions& options = {}) {
    return message_of(kind, [&] { read_sql(path(), query, options).to_table(); });
  }

  TemporaryFolder folder_;
};

TEST_F(SqlTest, TypesAreThoseOfTheTableOrOfTheValues) {
  run("CREATE TABLE t (i INTEGER, r REAL, s VARCHAR(20), b BLOB, n NUMERIC);"
      "INSERT INTO t VALUES (1, 2, 'one', x'00ff', 1), (NULL, NULL, NULL, NULL, 2.5),"
      "(-9223372036854775808, 1e300, 'zw\xc3\xb6lf', x'', NULL);");
  Dataset rows = read_sql(path(), "SELECT *, i IS NULL AS missing, NULL AS absent FROM t");
  EXPECT_EQ(describe_columns(*rows.schema()),
            "i: int64, r: double, s: string, b: binary, n: double, missing: int64, absent: null");
  auto table = rows.to_table();
  EXPECT_EQ(scalar_text(*table, "i", 2), "-9223372036854775808");
  EXPECT_EQ(scalar_text(*table, "r", 0), "2");
  EXPECT_EQ(scalar_text(*table, "s", 2), "zw\xc3\xb6lf");
  EXPECT_EQ(Row(rows.take_batch(1), 0).get<std::string>("b"), std::string("\0\xff", 2));
  EXPECT_EQ(scalar_text(*table, "b", 1), "null");
  EXPECT_EQ(scalar_text(*table, "n", 1), "2.5");
  EXPECT_EQ(rows.count(), 3);
  EXPECT_THAT(rows.input_files(), ElementsAre(path()));
  auto flags = read_sql(path(), "SELECT i IS NULL AS missing FROM t",
                        {.column_types = {{"missing", "bool"}}});
  EXPECT_EQ(scalar_text(*flags.to_table(), "missing", 1), "true");
  EXPECT_EQ(read_sql(path(), "SELECT i FROM t WHERE i > 5").to_table()->num_rows(), 0);
}

TEST_F(SqlTest, ManyRowsComeInOrderOfTheQueryAndAgain) {
  run("CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER);"
      "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 299999)"
      "INSERT INTO t SELECT i, (i * 7919) % 300000 FROM n;");
  Dataset rows = read_sql(path(), "SELECT id, k FROM t;");
  EXPECT_EQ(rows.num_blocks(), 5);
  auto ids = read_ids(rows.plan(), {}, {.threads = 4});
  ASSERT_EQ(ids.size(), 300000u);
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_EQ(read_ids(rows.plan(), {}, {.threads = 1}), ids);
  EXPECT_EQ(read_ids(rows.plan(), {.window = 3, .window_first_row = 3 << 16}).front(), 3 << 16);
  auto ordered = read_sql(path(), "SELECT id FROM t ORDER BY k DESC LIMIT 200000");
  EXPECT_EQ(ordered.count(), 200000);
  EXPECT_EQ(ints(*ordered.take(2), "id")[0] * 7919 % 300000, 299999);
  auto loaded = Dataset::from_json(Json::parse(ordered.filter(col("id") < 100).to_json().dump()));
  EXPECT_TRUE(loaded.to_table()->Equals(*ordered.filter(col("id") < 100).to_table()));
  EXPECT_THAT(rows.explain(), HasSubstr("read_sql: 'SELECT id, k FROM t;' of '"));
}

TEST_F(SqlTest, MistakesAreNamed) {
  run("CREATE TABLE t (i INTEGER, x); INSERT INTO t VALUES (1, 1), (2, 'two'), ('three', 3);");
  auto invalid = ErrorKind::kInvalidArgument;
  EXPECT_THAT(refused(invalid, "SELECT * FROM no"),
              AllOf(HasSubstr("read_sql"), HasSubstr("no such table: no")));
  EXPECT_THAT(refused(invalid, "SELECT i FROM t"),
              AllOf(HasSubstr("column 'i' is of type int64, and row 2 has the value three"),
                    HasSubstr("CAST")));
  EXPECT_THAT(refused(invalid, "SELECT x FROM t"), HasSubstr("row 1 has the value two"));
  EXPECT_EQ(read_sql(path(), "SELECT CAST(x AS TEXT) AS x FROM t").count(), 3);
  EXPECT_THAT(refused(invalid, "SELECT i, i FROM t"), HasSubstr("twice"));
  EXPECT_THAT(refused(ErrorKind::kNotFound, "SELECT i FROM t", {.column_types = {{"j", "string"}}}),
              HasSubstr("'j'"));
  EXPECT_THAT(refused(invalid, "SELECT i FROM t", {.column_types = {{"i", "int8"}}}),
              HasSubstr("int8"));
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { read_sql(folder_ / "b.db", "SELECT 1"); }),
              HasSubstr("b.db"));
  EXPECT_THAT(message_of(invalid, [&] { read_sql("s3://bucket/a.db", "SELECT 1"); }),
              HasSubstr("copy it"));
  std::ofstream(folder_ / "text.db") << std::string(4096, 'x');
  EXPECT_THAT(
      message_of(ErrorKind::kCorrupt, [&] { read_sql(folder_ / "text.db", "SELECT * FROM t"); }),
      HasSubstr("not a database"));
}

TEST_F(SqlTest, AQueryCanOnlyRead) {
  run("CREATE TABLE t (i INTEGER); INSERT INTO t VALUES (1);");
  for (const char* query :
       {"DELETE FROM t", "ATTACH 'other.db' AS o", "PRAGMA user_version", "", "SELECT 1; SELECT 2",
        "CREATE TABLE u (i)", "VACUUM INTO 'copy.db'", "SELECT load_extension('x')"}) {
    SCOPED_TRACE(query);
    message_of(ErrorKind::kInvalidArgument, [&] { read_sql(path(), query); });
  }
  EXPECT_EQ(read_sql(path(), "SELECT i FROM t -- all of them").count(), 1);
}

// Each part of the rows has its own run of the query: in 300,000 rows, ORDER BY random() lost and
// doubled tens of thousands.
TEST_F(SqlTest, WhatIsSomethingElseInTheNextRunIsRefused) {
  run("CREATE TABLE t (i INTEGER, day TEXT); INSERT INTO t VALUES (1, 'now'), (2, '2020-01-01');"
      "CREATE VIEW v AS SELECT i FROM t ORDER BY random();");
  auto invalid = ErrorKind::kInvalidArgument;
  struct {
    const char* query;
    const char* named;
  } cases[] = {
      {"SELECT i FROM t ORDER BY random()", "uses random()"},
      {"SELECT i FROM t ORDER BY RANDOM()", "uses random()"},
      {"SELECT i FROM v", "uses random()"},
      {"SELECT randomblob(3) AS b FROM t", "uses randomblob()"},
      {"SELECT CURRENT_TIMESTAMP AS x FROM t", "uses current_timestamp()"},
      {"SELECT CURRENT_DATE AS x FROM t", "uses current_date()"},
      {"SELECT CURRENT_TIME AS x FROM t", "uses current_time()"},
      {"SELECT last_insert_rowid() AS x FROM t", "uses last_insert_rowid()"},
      {"SELECT changes() AS x FROM t", "uses changes()"},
      {"SELECT total_changes() AS x FROM t", "uses total_changes()"},
      {"SELECT i FROM t WHERE day > date('now')", "uses the time that it is now"},
      {"SELECT datetime() AS x FROM t", "uses the time that it is now"},
      {"SELECT julianday('NOW') AS x FROM t", "uses the time that it is now"},
      {"SELECT unixepoch() AS x FROM t", "uses the time that it is now"},
      {"SELECT strftime('%Y') AS x FROM t", "uses the time that it is now"},
      {"SELECT strftime('%Y', day) AS x FROM t", "uses the time that it is now"},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.query);
    EXPECT_THAT(refused(invalid, each.query),
                AllOf(HasSubstr(each.named), HasSubstr("Use random_shuffle")));
  }
  auto year = read_sql(path(), "SELECT strftime('%Y', day) AS y FROM t WHERE i = 2");
  EXPECT_EQ(scalar_text(*year.to_table(), "y", 0), "2020");
  EXPECT_EQ(read_sql(path(), "SELECT abs(i) AS a, group_concat(day) AS d FROM t").count(), 1);
}

TEST_F(SqlTest, WhatIsNoFileIsRefused) {
  run("CREATE TABLE t (i INTEGER); INSERT INTO t VALUES (1), (2);");
  auto json = read_sql(path(), "SELECT i FROM t").to_json();
  std::filesystem::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(json).to_table(); }),
              HasSubstr("is no regular file"));
}

// The number of its rows is never known. Only the reader of a training run, or the end of the
// process, can stop such a query.
TEST_F(SqlTest, AnEndlessQueryEndsWithItsPass) {
  run("CREATE TABLE t (i INTEGER);");
  Dataset endless = read_sql(path(),
                             "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) "
                             "SELECT i AS id FROM n");
  Walk options;
  options.patience = std::chrono::milliseconds(500);
  EXPECT_THAT(message_of(ErrorKind::kTimeout, [&] { walk(endless, 1, options); }),
              HasSubstr("had to wait 500 ms"));
  // The same within a stage, whose rows a separate thread reads.
  EXPECT_THAT(message_of(ErrorKind::kTimeout, [&] { walk(endless.sort("id"), 1, options); }),
              HasSubstr("had to wait 500 ms"));
}

TEST_F(SqlTest, AChangedFileIsAnError) {
  run("CREATE TABLE t (i INTEGER); INSERT INTO t VALUES (1), (2);");
  Dataset rows = read_sql(path(), "SELECT i FROM t");
  EXPECT_EQ(rows.count(), 2);
  auto json = rows.to_json();
  std::filesystem::last_write_time(
      path(), std::filesystem::last_write_time(path()) + std::chrono::seconds(5));
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { Dataset::from_json(json).to_table(); }),
              HasSubstr("has changed"));
}

}  // namespace
}  // namespace manta::data
