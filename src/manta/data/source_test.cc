#include <arrow/util/io_util.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "manta/base/error_internal.h"
#include "manta/data/data_files_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/source_internal.h"
#include "manta/data/sources.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Overwrites bytes of a file's footer: every `from` with `to`, of the same length.
int change_footer(const std::string& path, const std::string& from, const std::string& to) {
  std::string bytes = content_of(path);
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + bytes.size() - 8, sizeof(length));
  int changed = 0;
  for (size_t at = bytes.size() - 8 - length;
       (at = bytes.find(from, at)) != std::string::npos && at < bytes.size() - 8; ++changed) {
    bytes.replace(at, to.size(), to);
  }
  std::ofstream(path, std::ios::binary) << bytes;
  return changed;
}

std::shared_ptr<arrow::Table> table_of(const std::vector<std::string>& names) {
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (size_t i = 0; i < names.size(); ++i) {
    fields.push_back(arrow::field(names[i], arrow::int64()));
    auto value = static_cast<int64_t>(i);
    columns.push_back(array_from_json(arrow::int64(), {value, value + 10}));
  }
  return arrow::Table::Make(arrow::schema(fields), columns);
}

TEST(SourceTest, AFooterThatDoesNotFitTheRowsIsDamage) {
  ParquetFolder folder;
  auto path = folder.write("a.parquet", *table_of({"x"}), 10);
  // Thrift's compact form: a 64-bit integer (0x16) of value 2, zigzag: rows of the file, of its row
  // group, and values of the column.
  ASSERT_EQ(change_footer(path, "\x16\x04", "\x16\x0a"), 3);
  EXPECT_EQ(read_parquet(path).count(), 5);
  for (const auto& dataset : {read_parquet(path), read_parquet(path).filter(col("x") > 0)}) {
    EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { dataset.to_table(); }),
                AllOf(HasSubstr("row group 0 of '" + path),
                      HasSubstr("says that it has 5 rows, and it has 2"), HasSubstr("damaged")));
  }
}

TEST(SourceTest, FilesMayDifferInWhetherNullsAreAllowedAtAnyLevel) {
  auto types = [](bool nulls) {
    auto number = arrow::field("element", arrow::int32(), nulls);
    auto inner = arrow::struct_({number, arrow::field("l", arrow::list(number), nulls)});
    return arrow::schema(
        {arrow::field("list", arrow::list(number), nulls), arrow::field("struct", inner, nulls),
         arrow::field("map", arrow::map(arrow::utf8(), arrow::field("value", inner, nulls)), nulls),
         arrow::field("lists",
                      arrow::large_list(arrow::field("element", arrow::list(number), nulls)),
                      nulls)});
  };
  ParquetFolder folder;
  Json inner = {{"element", 1}, {"l", {2, 3}}};
  Json rows = {{1, 2}}, structs = Json::array({inner});
  Json maps = Json::array({Json::array({Json::array({"a", inner})})});
  Json lists = Json::array({Json::array({Json::array({4}), Json::array({5, 6})})});
  for (bool nulls : {false, true}) {
    auto schema = types(nulls);
    auto table = arrow::Table::Make(schema, {array_from_json(schema->field(0)->type(), rows),
                                             array_from_json(schema->field(1)->type(), structs),
                                             array_from_json(schema->field(2)->type(), maps),
                                             array_from_json(schema->field(3)->type(), lists)});
    folder.write_with_schema(nulls ? "b.parquet" : "a.parquet", *table, 10);
  }
  auto both = read_parquet(folder.path());
  EXPECT_EQ(both.count(), 2);
  auto table =
      both.map_batches([](const std::shared_ptr<arrow::RecordBatch>& batch) { return batch; })
          .to_table();
  EXPECT_TRUE(table->ValidateFull().ok());
  EXPECT_TRUE(table->schema()->Equals(*both.schema()));
  EXPECT_TRUE(table->Slice(0, 1)->Equals(*table->Slice(1, 1)));
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(table->schema()->field(i)->type()->Equals(*types(true)->field(i)->type()));
  }
}

TEST(SourceTest, NegativeRowsInAFooterAreDamage) {
  ParquetFolder folder;
  auto path = folder.write("a.parquet", *table_of({"x"}), 10);
  change_footer(path, "\x16\x04", "\x16\x05");  // -3
  message_of(ErrorKind::kCorrupt, [&] { read_parquet(path).count(); });
}

TEST(SourceTest, TwoColumnsOfOneNameAreAnError) {
  ParquetFolder folder;
  auto path = folder.write("a.parquet", *table_of({"a", "a", "b"}), 10);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { read_parquet(path); }),
              AllOf(HasSubstr(path), HasSubstr("2 columns named 'a'")));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] {
                           read_parquet(path, {.columns = {"b", "a"}});
                         }),
              HasSubstr("2 columns named 'a'"));
  EXPECT_THAT(ints(*read_parquet(path, {.columns = {"b"}}).to_table(), "b"), ElementsAre(2, 12));
  auto plain = folder.write("0.parquet", *table_of({"a", "b"}), 10);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] {
                           read_parquet({plain, path}).count();
                         }),
              HasSubstr("2 columns named 'a'"));
}

TEST(SourceTest, FailuresKeepTheirReason) {
  struct Case {
    arrow::Status status;
    ErrorKind kind;
    bool damage;
  };
  const Case cases[] = {
      {arrow::Status::OutOfMemory("malloc of size 7 failed"), ErrorKind::kResources, false},
      {arrow::Status::CapacityError("array too long"), ErrorKind::kResources, false},
      {arrow::Status::Cancelled("stopped"), ErrorKind::kCancelled, false},
      {arrow::Status::NotImplemented("codec lzo"), ErrorKind::kInvalidArgument, false},
      {arrow::internal::IOErrorFromErrno(EIO, "reading"), ErrorKind::kIo, false},
      {arrow::Status::IOError("unexpected end of stream"), ErrorKind::kCorrupt, true},
      {arrow::Status::Invalid("bad level"), ErrorKind::kCorrupt, true},
  };
  for (const auto& test : cases) {
    Error error = read_error(test.status, "reading a file");
    EXPECT_EQ(kind_name(error.kind()), kind_name(test.kind)) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("reading a file: " + test.status.message()));
    EXPECT_EQ(std::string(error.what()).find("damaged") != std::string::npos, test.damage)
        << error.what();
  }
}

// Only the text of the library's error says whether the file is damaged.
TEST(SourceTest, WhatIsNotSupportedMayBeTheReason) {
  ParquetFolder folder;
  auto path = folder.write("a.parquet", *table_of({"x"}), 10);
  // The codec, field 4 of a column's description: from UNCOMPRESSED (0) to LZO (3).
  ASSERT_EQ(change_footer(path, std::string("\x15\x00\x16\x04", 4), "\x15\x06\x16\x04"), 1);
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { read_parquet(path).to_table(); }),
              AllOf(HasSubstr(path), HasSubstr("LZO"), HasSubstr("or has a feature that cannot")));
}

TEST(SourceTest, OnlyFilesAreRead) {
  ParquetFolder folder;
  auto fifo = folder.file("fifo.parquet");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  auto socket = folder.file("socket.parquet");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(socket.size(), sizeof(address.sun_path));
  std::strcpy(address.sun_path, socket.c_str());  // NOLINT
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  auto link = folder.file("link.parquet");
  std::filesystem::create_symlink(fifo, link);

  auto refused = [](const std::string& path) {
    return message_of(ErrorKind::kInvalidArgument, [&] { read_parquet(path); });
  };
  EXPECT_THAT(refused(fifo), HasSubstr("'" + fifo + "' is a fifo"));
  EXPECT_THAT(refused(link), HasSubstr("is a fifo"));
  EXPECT_THAT(refused(socket), HasSubstr("is a socket"));
  EXPECT_THAT(refused("/dev/zero"), HasSubstr("is a device"));
  EXPECT_THAT(refused(folder.path()), HasSubstr("is a"));

  // The same for a plan from elsewhere, whose file has not been opened before.
  auto json = read_parquet(folder.write("a.data", *table_of({"x"}), 10)).to_json();
  for (const auto& path : {fifo, socket, std::string("/dev/zero")}) {
    json["source"]["files"][0]["path"] = path;
    EXPECT_THAT(
        message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(json).to_table(); }),
        HasSubstr("'" + path + "' is a"));
  }
}

TEST(SourceTest, LinksToFilesAreRead) {
  ParquetFolder folder;
  auto path = folder.write("a.parquet", *table_of({"x"}), 10);
  std::filesystem::create_symlink(path, folder.file("b.parquet"));
  EXPECT_EQ(read_parquet(folder.path()).count(), 4);
  std::filesystem::create_symlink(folder.file("none"), folder.file("c.parquet"));
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { read_parquet(folder.path()); }),
              HasSubstr(folder.file("c.parquet")));
}

TEST(SourceTest, LinksToFoldersAreFollowedButNotInCircles) {
  ParquetFolder folder, elsewhere;
  std::filesystem::create_directory(folder.file("year=2019"));
  folder.write_rows("year=2019/a.parquet", 0, 2, 10);
  elsewhere.write_rows("b.parquet", 10, 3, 10);
  std::filesystem::create_directory(elsewhere.file("deeper"));
  elsewhere.write_rows("deeper/c.parquet", 20, 4, 10);
  std::filesystem::create_directory_symlink(elsewhere.path(), folder.file("year=2020"));
  std::filesystem::create_directory_symlink(elsewhere.path(), folder.file("_hidden"));
  EXPECT_EQ(read_parquet(folder.path()).count(), 9);
  EXPECT_EQ(read_parquet(folder.path()).filter(col("year") == 2020).count(), 7);
  for (const char* circle : {".", "..", "deeper/../../year=2020"}) {
    auto link = folder.file("year=2020/deeper/circle");
    std::filesystem::create_directory_symlink(
        std::filesystem::path(folder.file("year=2020/deeper")) / circle, link);
    EXPECT_EQ(read_parquet(folder.path()).count(), 9) << circle;
    std::filesystem::remove(link);
  }
  // If links name a file twice, it is read twice, like two copies.
  std::filesystem::create_directory_symlink(elsewhere.path(), folder.file("year=2021"));
  EXPECT_EQ(read_parquet(folder.path()).count(), 16);
}

TEST(SourceTest, FoldersWithLinksToEachOtherAreReadOnceBelowEachLink) {
  ParquetFolder folder;
  constexpr int kFolders = 12;
  auto name = [](int i) { return str("f", i); };
  for (int i = 0; i < kFolders; ++i) {
    std::filesystem::create_directory(folder.file(name(i)));
    std::ofstream(folder / (name(i) + "/a.parquet"));
    for (int other = 0; other < kFolders; ++other) {
      if (other == i) continue;
      std::filesystem::create_directory_symlink("../" + name(other),
                                                folder.file(name(i) + "/" + name(other)));
    }
  }
  int files = 0;
  for_files_below(folder.path(), ".parquet", [&](const auto&) { ++files; });
  EXPECT_EQ(files, kFolders * (1 + (kFolders - 1) * (kFolders - 1)));
}

TEST(SourceTest, LinksThatLeadNowhereMatterIfTheyWouldBeRead) {
  ParquetFolder folder;
  folder.write_rows("a.parquet", 0, 2, 10);
  std::filesystem::create_symlink("x", folder.file("x"));
  EXPECT_EQ(read_parquet(folder.path()).count(), 2);
  std::filesystem::create_symlink("x.parquet", folder.file("x.parquet"));
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { read_parquet(folder.path()); }),
              HasSubstr(folder.file("x.parquet")));
}

TEST(SourceTest, ExtensionsAreReadInAnyCase) {
  ParquetFolder folder;
  folder.write_rows("a.parquet", 0, 2, 10);
  folder.write_rows("b.PARQUET", 2, 3, 10);
  folder.write_rows("c.Parquet", 5, 4, 10);
  folder.write_rows("d.parquet1", 9, 4, 10);
  EXPECT_EQ(read_parquet(folder.path()).count(), 9);
  for (const char* name : {"a.csv", "b.CSV"}) std::ofstream(folder / name) << "id\n1\n";
  EXPECT_EQ(read_csv(folder.path()).count(), 2);
}

TEST(SourceTest, AddressesOfUnknownKindsAreRefused) {
  for (const char* path : {"s3://key:secret@bucket/a", "nosuch://b/c", "file:///tmp/a.parquet"}) {
    EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { read_parquet(path); }),
                HasSubstr("read_parquet: "));
  }
}

TEST(SourceTest, PatternsAreFilesInTheOrderOfTheirNames) {
  ParquetFolder folder;
  for (int i : {3, 1, 2}) {
    folder.write_rows(str("part-", i, ".parquet"), i * 10, 2, 10);
  }
  folder.write_rows("other.parquet", 90, 2, 10);
  folder.write_rows("[x].parquet", 70, 1, 10);
  std::filesystem::create_directory(folder.file("part-folder"));
  folder.write_rows("part-folder/a.parquet", 50, 1, 10);
  auto ids = [&](const std::string& pattern) {
    return ints(*read_parquet(folder.file(pattern)).to_table(), "id");
  };
  EXPECT_THAT(ids("part-?.parquet"), ElementsAre(10, 11, 20, 21, 30, 31));
  EXPECT_THAT(ids("part-[13].parquet"), ElementsAre(10, 11, 30, 31));
  EXPECT_THAT(ids("part-*"), ElementsAre(10, 11, 20, 21, 30, 31, 50));
  EXPECT_THAT(ids("[x].parquet"), ElementsAre(70));  // a file of that very name
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { read_parquet(folder.file("z*.parquet")); }),
              HasSubstr("no file matches the pattern"));
}

TEST(SourceTest, HiddenFoldersAreNotRead) {
  ParquetFolder folder;
  folder.write_rows("a.parquet", 0, 2, 10);
  for (const char* name : {"_delta_log", "_temporary", ".ipynb_checkpoints", "year=2020"}) {
    std::filesystem::create_directories(folder.file(str(name, "/inner")));
    folder.write_rows(str(name, "/inner/b.parquet"), 10, 1, 10);
  }
  EXPECT_THAT(ints(*read_parquet(folder.path(), {.hive_partitions = false}).to_table(), "id"),
              ElementsAre(0, 1, 10));
}

TEST(SourceTest, AFolderThatIsGoneIsNoExceptionOfTheLibrary) {
  ParquetFolder folder;
  auto before = std::filesystem::current_path();
  std::filesystem::create_directory(folder.file("gone"));
  std::filesystem::current_path(folder.file("gone"));
  std::filesystem::remove(folder.file("gone"));
  auto of_name = message_of(ErrorKind::kNotFound, [] { read_parquet("a.parquet"); });
  auto of_pattern = message_of(ErrorKind::kNotFound, [] { read_parquet("*.parquet"); });
  std::filesystem::current_path(before);
  EXPECT_THAT(of_name, HasSubstr("looked for it from a folder that does not exist any more"));
  EXPECT_THAT(of_pattern, HasSubstr("looked from a folder that does not exist any more"));
}

std::shared_ptr<arrow::Table> numbers_from(int64_t first) {
  return arrow::Table::Make(arrow::schema({arrow::field("x", arrow::int64())}),
                            {array_from_json(arrow::int64(), {first, first + 1, first + 2})});
}

// As many bytes, row groups and rows as before.
void replace_by_other_rows(ParquetFolder& folder, const std::string& name) {
  auto size = std::filesystem::file_size(folder.file(name));
  folder.write("new.parquet", *numbers_from(20), 2);
  ASSERT_EQ(std::filesystem::file_size(folder.file("new.parquet")), size);
  std::filesystem::rename(folder.file("new.parquet"), folder.file(name));
}

TEST(SourceTest, AFileThatChangedSinceThePlanWasStoredIsSaid) {
  ParquetFolder folder;
  auto path = folder.write("a.parquet", *numbers_from(10), 2);
  Json json = read_parquet(path).to_json();
  EXPECT_EQ(Dataset::from_json(json).to_json(), json);
  replace_by_other_rows(folder, "a.parquet");
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { Dataset::from_json(json).to_table(); }),
              AllOf(HasSubstr(path), HasSubstr("has changed"), HasSubstr("its footer is another")));
  // A plan of an older version knows only the numbers of rows.
  Json older = json;
  older["source"]["files"][0].erase("size");
  older["source"]["files"][0].erase("footer");
  EXPECT_EQ(Dataset::from_json(older).count(), 3);
  EXPECT_EQ(Dataset::from_json(older).to_json(), older);
  folder.write("a.parquet", *numbers_from(10), 1);
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { Dataset::from_json(older).to_table(); }),
              HasSubstr("it had 2 row groups and has 3"));
}

TEST(SourceTest, AFileThatChangedWhileThePlanIsInUseIsSaid) {
  ParquetFolder folder;
  auto path = folder.write("a.parquet", *numbers_from(10), 2);
  auto dataset = read_parquet(path);
  EXPECT_EQ(dataset.count(), 3);
  replace_by_other_rows(folder, "a.parquet");
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { dataset.to_table(); }),
              AllOf(HasSubstr(path), HasSubstr("was replaced or written to")));
}

TEST(SourceTest, AStoredPlanChecksTheColumnsOfEveryFile) {
  ParquetFolder folder;
  folder.write("a.parquet", *table_of({"x", "y"}), 10);
  auto path = folder.write("b.parquet", *table_of({"x", "y"}), 10);
  Json json = read_parquet(folder.path()).to_json();
  json["source"]["files"][1].erase("size");  // as an older version wrote it
  json["source"]["files"][1].erase("footer");
  folder.write("b.parquet", *table_of({"x", "z"}), 10);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { Dataset::from_json(json).to_table(); }),
              AllOf(HasSubstr(path), HasSubstr("has no column 'y'")));
}

TEST(SourceTest, AnEpochIsTheUsersArgument) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write("a.parquet", *table_of({"x"}), 10));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { dataset.iter_batches({.epoch = -1}); }),
              HasSubstr("an epoch of at least 0, not -1"));
}

}  // namespace
}  // namespace manta::data
