// Data sets over a real server of S3.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include "manta/data/feed_fixture_internal.h"
#include "manta/data/npy_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/s3_server_internal.h"
#include "manta/data/sources.h"
#include "manta/data/text_folder_internal.h"
#include "manta/io/remote_files_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Dataset rows_of_text(int64_t rows) { return range(rows).with_column("half", col("id") * 0.5); }

TEST(S3Test, WhatIsWrittenIsListedReadAndReplaced) {
  S3Server server;
  std::string folder = server.address("data/trips");
  EXPECT_EQ(rows_of_text(2500).write_parquet(folder, {.rows_per_file = 1000}), 2500);
  Dataset dataset = read_parquet(folder);
  EXPECT_EQ(dataset.count(), 2500);
  EXPECT_EQ(ints(*dataset.filter(col("id") >= 2498).to_table(), "id"),
            (std::vector<int64_t>{2498, 2499}));
  EXPECT_THAT(dataset.explain(), AllOf(HasSubstr("3 files"), HasSubstr("s3://bucket/data/trips")));
  EXPECT_EQ(Dataset::from_json(Json::parse(dataset.to_json().dump())).count(), 2500);
  EXPECT_EQ(read_parquet(server.address("data/tr*/part-0000[01].parquet")).count(), 2000);
  EXPECT_EQ(read_parquet(server.address("data/t*")).count(), 2500);
  EXPECT_EQ(read_parquet(server.address("data/trips/part-00002.parquet")).count(), 500);
  EXPECT_THAT(
      message_of(ErrorKind::kInvalidArgument, [&] { rows_of_text(5).write_parquet(folder); }),
      AllOf(HasSubstr("write_parquet"), HasSubstr("3 files *.parquet already")));
  // It reads the files that it replaces.
  EXPECT_EQ(dataset.filter(col("id") < 10).write_parquet(folder, {.overwrite = true}), 10);
  EXPECT_EQ(read_parquet(folder).count(), 10);
  EXPECT_THAT(message_of([&] { dataset.to_table(); }), HasSubstr("data/trips/part-0000"));

  rows_of_text(30).write_csv(server.address("csv"), {.rows_per_file = 10});
  EXPECT_EQ(read_csv(server.address("csv")).filter(col("id") > 20).count(), 9);
  EXPECT_EQ(read_binary_files(server.address("csv"), {.include_paths = true}).count(), 3);
  EXPECT_EQ(read_text(server.address("csv/part-00000.csv")).to_table()->num_rows(), 11);
  message_of(ErrorKind::kInvalidArgument, [&] { rows_of_text(1).write_csv(server.address("")); });
}

TEST(S3Test, WithoutAKeyOnlyWhatIsPublicIsRead) {
  S3Server server;
  rows_of_text(10).write_csv(server.address("data"));
  std::string path = server.address("data/part-00000.csv", "anonymous@bucket");
  EXPECT_THAT(
      message_of(ErrorKind::kInvalidArgument, [&] { read_csv(path); }),
      AllOf(HasSubstr("read_csv"), HasSubstr("access is refused"), HasSubstr("AWS_ACCESS_KEY_ID")));
  server.tell("/-/public");
  EXPECT_EQ(read_csv(path).count(), 10);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] { read_csv("s3://key:secret@bucket/data/a.csv"); }),
              AllOf(HasSubstr("secret key"), testing::Not(HasSubstr("key:secret"))));
}

TEST(S3Test, WhatIsNotThereIsAnErrorThatNamesIt) {
  S3Server server;
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { read_csv(server.address("a.csv", "none")); }),
              HasSubstr("s3://none/a.csv"));
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { read_csv(server.address("a.csv")); }),
              HasSubstr("there is no file or folder 's3://bucket/a.csv"));
  EXPECT_THAT(message_of(ErrorKind::kNotFound, [&] { read_csv(server.address("x/*.csv")); }),
              HasSubstr("no file matches"));
  EXPECT_THAT(
      message_of(ErrorKind::kNotFound, [&] { range(3).write_csv(server.address("x", "none")); }),
      AllOf(HasSubstr("write_csv"), HasSubstr("s3://none/x")));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { read_csv("s4://bucket/a.csv"); }),
              HasSubstr("s4"));
  EXPECT_THAT(
      message_of(ErrorKind::kInvalidArgument, [&] { read_csv("s3://bucket/a.csv?colour=blue"); }),
      HasSubstr("colour"));
}

TEST(S3Test, ConnectionsThatAreCutAreReadAgainFromTheFragment) {
  S3Server server;
  std::string folder = server.address("data");
  rows_of_text(200'000).write_parquet(folder, {.rows_per_file = 100'000, .compression = "none"});
  rows_of_text(50'000).write_csv(server.address("csv"));
  auto expected = ints(*range(200'000).to_table(), "id");
  Dataset parquet = read_parquet(folder);
  Dataset csv = read_csv(server.address("csv"), {.fragment_bytes = 200'000});
  EXPECT_EQ(csv.count(), 50'000);
  for (int faults : {1, 3}) {
    server.tell(str("/-/fault?cut=", faults));
    EXPECT_EQ(ints(*parquet.to_table(), "id"), expected);
    server.tell(str("/-/fault?refuse=", faults));
    EXPECT_EQ(csv.to_table()->num_rows(), 50'000);
  }
  EXPECT_THAT(server.tell("/-/counts"), AllOf(HasSubstr("cut=4"), HasSubstr("refuse=4")));
  // For ever.
  server.tell("/-/fault?cut=100000");
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { parquet.to_table(); }),
              AllOf(HasSubstr("part-0000"), HasSubstr("tried 3 times")));
}

TEST(S3Test, FilesThatHaveChangedAreErrors) {
  S3Server server;
  std::string folder = server.address("data");
  rows_of_text(1000).write_parquet(folder);
  rows_of_text(1000).write_csv(server.address("csv"));
  Dataset parquet = read_parquet(folder);
  Dataset csv = read_csv(server.address("csv"));
  EXPECT_EQ(parquet.count(), 1000);
  EXPECT_EQ(csv.count(), 1000);
  // The same names, sizes and rows, but for one value.
  auto other = range(1000).with_column("half", col("id") * 0.5 + 1.0);
  for (const auto& [kind, name] : {std::pair{"parquet", "data"}, {"csv", "csv"}}) {
    TextFolder local;
    Dataset(other).write_parquet(local / "p");
    Dataset(other).write_csv(local / "c");
    std::string from = str(local / (kind == std::string("csv") ? "c" : "p"), "/part-00000.", kind);
    auto file = check(arrow::io::ReadableFile::Open(from), "");
    auto bytes = check(file->Read(check(file->GetSize(), "")), "");
    NewRemoteFile replaced(*remote_address(server.address(str(name, "/part-00000.", kind))));
    check(replaced.stream()->Write(bytes), "");
    replaced.publish();
  }
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { parquet.to_table(); }),
              HasSubstr("has changed"));
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { csv.to_table(); }), HasSubstr("has changed"));
}

// A picture of two pixels, (10, 20, 30) and (40, 50, 60).
std::string small_png() {
  const char* hex =
      "89504e470d0a1a0a0000000d49484452000000020000000108020000007b40e8dd0000000f49444154789c63"
      "e01291d330b20100023700d35b5651d80000000049454e44ae426082";
  std::string bytes;
  for (const char* c = hex; *c; c += 2) {
    bytes += static_cast<char>(std::stoi(std::string(c, 2), nullptr, 16));
  }
  return bytes;
}

void put(const S3Server& server, const std::string& path, const std::string& bytes) {
  NewRemoteFile file(*remote_address(server.address(path)));
  check(file.stream()->Write(bytes.data(), static_cast<int64_t>(bytes.size())), "test data");
  file.publish();
}

TEST(S3Test, EverySourceReadsFromThere) {
  S3Server server;
  put(server, "json/a.jsonl", "{\"id\": 1, \"tags\": [\"x\"]}\n{\"id\": 2}\n");
  put(server, "json/b.jsonl", "{\"id\": 3}\n");
  EXPECT_THAT(ints(*read_json(server.address("json")).to_table(), "id"), ElementsAre(1, 2, 3));
  EXPECT_EQ(read_json(server.address("json/*.jsonl"), {.fragment_bytes = 8}).count(), 3);

  std::string elements(24, '\0');
  for (size_t i = 0; i < elements.size(); i += 4) elements[i] = static_cast<char>(i / 4);
  put(server, "npy/a.npy", npy_header(*arrow::int32(), {3, 2}) + elements);
  auto arrays = read_numpy(server.address("npy")).to_table();
  EXPECT_EQ(arrays->num_rows(), 3);
  EXPECT_EQ(arrays->column(0)->chunk(0)->ToString().find("null"), std::string::npos);
  EXPECT_EQ(arrays->column(0)->type()->ToString(),
            arrow::fixed_size_list(arrow::int32(), 2)->ToString());

  put(server, "images/a.png", small_png());
  put(server, "images/b.png", small_png());
  auto images = read_images(server.address("images"), {.include_paths = true}).to_table();
  EXPECT_EQ(images->num_rows(), 2);
  auto pixels = array_from_json(images->column(0)->type(), {{{{10, 20, 30}, {40, 50, 60}}}});
  EXPECT_TRUE(images->column(0)->chunk(0)->Slice(0, 1)->Equals(pixels));

  // Cut in the middle: read again.
  server.tell("/-/fault?cut=2");
  EXPECT_EQ(read_json(server.address("json")).count(), 3);
  server.tell("/-/fault?refuse=2");
  EXPECT_EQ(read_numpy(server.address("npy")).to_table()->num_rows(), 3);
}

// As in training: a reader, and workers that take the rows from it.
TEST(S3Test, AReaderFeedsWorkersFromThere) {
  S3Server server;
  rows_of_text(5000).write_parquet(server.address("data"), {.rows_per_file = 1000});
  Dataset dataset = read_parquet(server.address("data"));
  server.tell("/-/fault?cut=1");
  Walked walked = walk(dataset, 2, {.options = {.batch_size = 50}, .epochs = 2});
  std::vector<int64_t> ids;
  for (const auto& step : walked.steps) ids.insert(ids.end(), step.begin(), step.end());
  auto expected = ints(*range(5000).to_table(), "id");
  ASSERT_EQ(ids.size(), 10'000u);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), ids.begin()));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), ids.begin() + 5000));
}

TEST(S3Test, ServersThatAreSilentOrGoneAreErrorsInTime) {
  // Accepts, and never answers.
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener.get(), 100), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::string options =
      str("?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:", ntohs(address.sin_port));
  std::string path = "s3://anonymous@bucket/a.csv" + options;
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { read_csv(path); }),
              HasSubstr("s3://anonymous@bucket"));
  listener.reset();
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { read_csv(path); }),
              HasSubstr("s3://anonymous@bucket"));
}

TEST(S3Test, AFileThatIsNotFinishedIsNotThere) {
  S3Server server;
  auto address = *remote_address(server.address("x/a.txt"));
  {
    NewRemoteFile file(address);
    check(file.stream()->Write("half of it", 10), "");
  }
  EXPECT_EQ(look_at(address).kind, RemoteEntry::kNothing);
  EXPECT_THAT(list_files_below(*remote_address(server.address(""))), testing::IsEmpty());
  {
    NewRemoteFile file(address);
    check(file.stream()->Write("all of it", 9), "");
    file.publish();
  }
  EXPECT_EQ(look_at(address).info.size, 9);
  EXPECT_FALSE(open_remote(address).tag.empty());
  remove_remote(address);
  remove_remote(address);
  EXPECT_EQ(look_at(address).kind, RemoteEntry::kNothing);
  message_of(ErrorKind::kNotFound, [&] { open_remote(address); });
}

TEST(S3Test, ATextThatIsReplacedWhileItIsReadIsOneOrTheOther) {
  S3Server server;
  auto address = *remote_address(server.address("x/a.txt"));
  write_remote(address, "text");
  server.tell("/-/fault?grow=1");
  EXPECT_EQ(read_remote(address, 100), "text and more");
  server.tell("/-/fault?shrink=2");
  EXPECT_EQ(read_remote(address, 100), "text and mo");
  EXPECT_THAT(server.tell("/-/counts"), HasSubstr("grow=1 shrink=2"));
  server.tell("/-/fault?grow=1000");
  EXPECT_THAT(message_of(ErrorKind::kIo, [&] { read_remote(address, 10000); }),
              AllOf(HasSubstr("x/a.txt"), HasSubstr("replaced")));
}

}  // namespace
}  // namespace manta::data
