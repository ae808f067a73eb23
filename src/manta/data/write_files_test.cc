#include <arrow/api.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "manta/base/error_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/data/write_files_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Dataset hundred_rows(ParquetFolder& folder) {
  return read_parquet(folder.write_rows("in.parquet", 0, 100, 30));
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

BatchPtr fail_at_the_end(const BatchPtr& batch) {
  if (ints(*batch, "id").back() == 99) throw std::runtime_error("broken");
  return batch;
}

BatchPtr put_a_folder_there(const BatchPtr& batch, const std::string& path) {
  if (std::filesystem::is_regular_file(path)) std::filesystem::remove(path);
  std::filesystem::create_directories(path + "/more");
  return batch;
}

TEST(WriteFilesTest, WhatIsWrittenIsReadAgain) {
  ParquetFolder folder;
  Dataset dataset = hundred_rows(folder);
  auto table = dataset.to_table();
  for (const char* compression : {"snappy", "zstd", "none"}) {
    std::string out = folder / str("out-", compression);
    EXPECT_EQ(dataset.write_parquet(out, {.rows_per_file = 40, .compression = compression}), 100);
    EXPECT_THAT(files_in(out), UnorderedElementsAre("part-00000.parquet", "part-00001.parquet",
                                                    "part-00002.parquet"));
    EXPECT_TRUE(read_parquet(out).to_table()->Equals(*table));
    EXPECT_EQ(read_parquet(out + "/part-00000.parquet").count(), 40);
  }
  EXPECT_EQ(dataset.write_csv(folder / "csv", {.rows_per_file = 60}), 100);
  EXPECT_THAT(files_in(folder / "csv"), UnorderedElementsAre("part-00000.csv", "part-00001.csv"));
  EXPECT_TRUE(read_csv(folder / "csv").to_table()->Equals(*table));
  struct stat info {};
  ASSERT_EQ(::stat((folder / "csv/part-00000.csv").c_str(), &info), 0);
  mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST(WriteFilesTest, OddTextsSurviveCsv) {
  ParquetFolder folder;
  Dataset dataset = from_items({{{"t", "a,b"}, {"n", 0.1}},
                                {{"t", "say \"hi\"\r\nto\nall"}, {"n", 1e300}},
                                {{"t", ""}, {"n", nullptr}},
                                {{"t", "\xe6\x9d\xb1"}, {"n", -5e-324}}});
  dataset.write_csv(folder / "out", {.delimiter = ';'});
  EXPECT_TRUE(read_csv(folder / "out", {.delimiter = ';'}).to_table()->Equals(*dataset.to_table()));
}

TEST(WriteFilesTest, NullsOfAnOnlyColumnAreNotLostInCsv) {
  ParquetFolder folder;
  Dataset dataset = from_items({{{"n", 1}}, {{"n", nullptr}}, {{"n", 3}}});
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { dataset.write_csv(folder / "a"); }),
              AllOf(HasSubstr("'n'"), HasSubstr(".null_value")));
  EXPECT_THAT(files_in(folder / "a"), IsEmpty());
  dataset.write_csv(folder / "a", {.null_value = "NA"});
  EXPECT_TRUE(read_csv(folder / "a").to_table()->Equals(*dataset.to_table()));
}

TEST(WriteFilesTest, EncodedColumnsAreWrittenAsTheirValues) {
  ParquetFolder folder;
  auto views = array_from_json(arrow::utf8_view(), {"a", "\"", "a longer text than fits inside"});
  auto runs = check(arrow::RunEndEncodedArray::Make(3, array_from_json(arrow::int32(), {1, 3}),
                                                    array_from_json(arrow::int64(), {5, nullptr})),
                    "a test column");
  auto codes =
      check(arrow::DictionaryArray::FromArrays(array_from_json(arrow::int8(), {1, nullptr, 0}),
                                               array_from_json(arrow::utf8(), {"x", "y"})),
            "a test column");
  Dataset dataset = from_arrow(arrow::Table::Make(
      arrow::schema({arrow::field("view", views->type()), arrow::field("runs", runs->type()),
                     arrow::field("codes", codes->type())}),
      {views, runs, codes}));
  EXPECT_EQ(dataset.write_csv(folder / "a"), 3);
  std::stringstream text;
  text << std::ifstream(folder / "a/part-00000.csv").rdbuf();
  EXPECT_EQ(text.str(),
            "\"view\",\"runs\",\"codes\"\n\"a\",5,\"y\"\n\"\"\"\",,\n"
            "\"a longer text than fits inside\",,\"x\"\n");
}

TEST(WriteFilesTest, NoRowsAreAFileWithColumns) {
  ParquetFolder folder;
  Dataset none = hundred_rows(folder).filter(col("id") < 0);
  EXPECT_EQ(none.write_parquet(folder / "out"), 0);
  EXPECT_THAT(read_parquet(folder / "out").columns(), ElementsAre("id", "half", "text"));
  EXPECT_EQ(none.write_csv(folder / "csv"), 0);
  EXPECT_THAT(read_csv(folder / "csv").columns(), ElementsAre("id", "half", "text"));
}

TEST(WriteFilesTest, ExistingFilesAreReplacedOnlyIfAsked) {
  ParquetFolder folder;
  Dataset dataset = hundred_rows(folder);
  std::string out = folder / "out";
  dataset.write_parquet(out, {.rows_per_file = 10});
  std::ofstream(out + "/notes.txt") << "mine";
  Error error = error_of([&] { dataset.write_parquet(out); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("10 files *.parquet"), HasSubstr(".overwrite")));
  EXPECT_EQ(dataset.write_csv(out), 100) << "other files are not in its way";

  // Also if it reads the files that it replaces.
  Dataset same = read_parquet(out).filter(col("id") < 5);
  EXPECT_EQ(same.write_parquet(out, {.overwrite = true}), 5);
  EXPECT_THAT(ints(*read_parquet(out).to_table(), "id"), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(files_in(out).size(), 3u) << "one of Parquet, one of CSV, notes.txt";
}

TEST(WriteFilesTest, FilesThatAReaderWouldFindBelowAreInTheWay) {
  ParquetFolder folder;
  Dataset dataset = hundred_rows(folder);
  std::filesystem::create_directories(folder / "out/sub");
  std::filesystem::create_directories(folder / "out/empty.csv");
  std::filesystem::create_directories(folder / "out/_temporary");
  std::ofstream(folder / "out/_temporary/b.csv") << "not read";
  EXPECT_EQ(dataset.write_csv(folder / "out"), 100) << "a folder is no file";
  EXPECT_EQ(read_csv(folder / "out").count(), 100);
  EXPECT_EQ(dataset.write_csv(folder / "out", {.overwrite = true}), 100);
  EXPECT_TRUE(std::filesystem::exists(folder / "out/empty.csv"));
  std::ofstream(folder / "out/sub/a.csv") << "id\n1\n";
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] { dataset.write_csv(folder / "out", {.overwrite = true}); }),
              HasSubstr("sub/a.csv"));
}

TEST(WriteFilesTest, AnOldFileThatCannotBeRemovedIsAnError) {
  ParquetFolder folder;
  Dataset dataset = hundred_rows(folder);
  dataset.write_csv(folder / "out");
  // As another program may do: puts a folder that is not empty in the place of the old file.
  Dataset meddling = dataset.map_batches(put_a_folder_there, folder / "out/part-00000.csv");
  EXPECT_THAT(
      message_of(ErrorKind::kIo, [&] { meddling.write_csv(folder / "out", {.overwrite = true}); }),
      AllOf(HasSubstr("'part-00000.csv' cannot be removed"), HasSubstr("all rows are written")));
}

// Counts rows only.
class NoFormat final : public FileWriter {
 public:
  void write(const std::shared_ptr<arrow::RecordBatch>&) override {}
  void finish() override {}
};

TEST(WriteFilesTest, FilesAreNotMoreThanTheirNamesCanOrder) {
  ParquetFolder folder;
  auto make = [](const auto&, const auto&) { return std::make_unique<NoFormat>(); };
  auto writing = [&](int64_t rows) {
    return write_files(from_arrow(table_of_ids(rows, rows)),
                       {.folder = folder / str(rows),
                        .writer = "write_toy",
                        .extensions = ".toy",
                        .rows_per_file = 2,
                        .most_files = 3},
                       make);
  };
  EXPECT_EQ(writing(6), 6);
  EXPECT_EQ(files_in(folder / "6").size(), 3u);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { writing(7); }),
              AllOf(HasSubstr("more than 6 rows"), HasSubstr(".rows_per_file")));
  EXPECT_THAT(files_in(folder / "7"), IsEmpty());
}

TEST(WriteFilesTest, AFailureLeavesWhatWasThere) {
  ParquetFolder folder;
  Dataset dataset = hundred_rows(folder);
  std::string out = folder / "out";
  Dataset broken = dataset.map_batches(fail_at_the_end, {.batch_size = 10});
  EXPECT_THAT(message_of([&] { broken.write_parquet(out, {.rows_per_file = 10}); }),
              HasSubstr("broken"));
  EXPECT_THAT(files_in(out), IsEmpty());
  dataset.write_parquet(out);
  EXPECT_THROW(broken.write_parquet(out, {.rows_per_file = 10, .overwrite = true}), Error);
  EXPECT_THAT(files_in(out), ElementsAre("part-00000.parquet"));
  EXPECT_EQ(read_parquet(out).count(), 100);
}

// As if the disk were full: files may not grow beyond a size.
TEST(WriteFilesTest, AFullDiskIsNamedAndLeavesNothing) {
  ParquetFolder folder;
  Dataset dataset = from_arrow(table_of_ids(100'000, 100'000));
  ASSERT_NE(::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = {64 << 10, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Error csv = error_of([&] { dataset.write_csv(folder / "csv"); });
  Error parquet = error_of([&] { dataset.write_parquet(folder / "parquet"); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  for (const Error& error : {csv, parquet}) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(folder.path()), HasSubstr("File too large")));
  }
  EXPECT_THAT(files_in(folder / "csv"), IsEmpty());
  EXPECT_THAT(files_in(folder / "parquet"), IsEmpty());
}

TEST(WriteFilesTest, WhatCannotBeWrittenIsAnErrorThatSaysWhy) {
  ParquetFolder folder;
  Dataset dataset = hundred_rows(folder);
  EXPECT_THAT(message_of([&] { dataset.write_parquet(folder / "in.parquet"); }),
              HasSubstr("in.parquet"));
  EXPECT_THAT(message_of([&] { dataset.write_parquet(folder / "a", {.compression = "best"}); }),
              AllOf(HasSubstr("'best'"), HasSubstr("snappy")));
  for (char delimiter : {'.', '-', 'e', '0', ' ', '"', '\n', '\0'}) {
    EXPECT_THAT(message_of([&] { dataset.write_csv(folder / "a", {.delimiter = delimiter}); }),
                HasSubstr(".delimiter cannot be"));
  }
  for (const char* null_value : {",", "a\nb", "\"", "a,"}) {
    EXPECT_THAT(message_of([&] { dataset.write_csv(folder / "a", {.null_value = null_value}); }),
                HasSubstr(".null_value"));
  }
  EXPECT_THAT(message_of([&] { dataset.write_parquet(folder / "a", {.rows_per_file = 0}); }),
              HasSubstr(".rows_per_file"));
  auto list = array_from_json(arrow::list(arrow::int64()), {{1, 2}, {3}});
  Dataset lists =
      from_arrow(arrow::Table::Make(arrow::schema({arrow::field("list", list->type())}), {list}));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { lists.write_csv(folder / "b"); }),
              AllOf(HasSubstr("write_csv"), HasSubstr("/b'"), HasSubstr("list")));
  EXPECT_EQ(lists.write_parquet(folder / "c"), 2);
}

}  // namespace
}  // namespace manta::data
