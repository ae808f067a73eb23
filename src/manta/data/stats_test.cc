// stats, the line of progress, streams of Arrow's C interface.

#include "manta/data/stats.h"

#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "manta/data/dataset.h"
#include "manta/data/error_terminal_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/pass_progress_internal.h"
#include "manta/data/sources.h"
#include "manta/data/stream_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

BatchPtr slow_rows(const BatchPtr& batch) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return batch;
}

BatchPtr after_more_than_a_second(const BatchPtr& batch) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1300));
  return batch;
}

BatchPtr broken_at_30(const BatchPtr& batch) {
  if (ints(*batch, "id").back() >= 30) throw std::runtime_error("broken");
  return batch;
}

TEST(StatsTest, EveryOperationHasItsTime) {
  ParquetFolder folder;
  auto rows = read_parquet(folder.write_rows("a.parquet", 0, 50, 10))
                  .filter(col("id") >= 20)
                  .map_batches(slow_rows)
                  .sort("id", {.descending = true})
                  .with_column("more", col("id") + 1);
  auto stats = rows.stats();
  EXPECT_EQ(stats.rows, 30);
  EXPECT_EQ(stats.rows_decoded, 30);  // two row groups are skipped
  EXPECT_GT(stats.bytes, 30 * 8);
  ASSERT_EQ(stats.operations.size(), 4u) << stats.to_string();
  EXPECT_EQ(stats.operations[0].operation, "filter(id >= 20)");
  EXPECT_EQ(stats.operations[0].rows, 30);
  EXPECT_GE(stats.operations[1].seconds, 0.06);  // three calls
  EXPECT_THAT(stats.operations[2].operation, HasSubstr("sort("));
  EXPECT_EQ(stats.operations[3].rows, 30);
  EXPECT_GE(stats.seconds, 0.02);
  EXPECT_GT(stats.wait_seconds, 0);
  EXPECT_GT(stats.read_seconds, 0);
  EXPECT_GT(stats.decode_seconds, 0);
  for (const auto& each : stats.operations) EXPECT_GE(each.seconds, 0) << each.operation;
  EXPECT_THAT(stats.to_string(), AllOf(HasSubstr("30 rows"), HasSubstr(" s  read\n"),
                                       HasSubstr(" s  decode, 30 rows\n"),
                                       HasSubstr(" s  filter(id >= 20), 30 rows\n")));
}

TEST(ProgressTest, SaysRowsRateBytesAndWhatIsLeft) {
  EXPECT_EQ(progress_text("count", 0, 0, 0, 0), "count: 0 rows, 0 B");
  EXPECT_EQ(progress_text("write_csv", 1'200'000, 96'000'000, 4, 0.4),
            "write_csv: 1.2 M rows, 300.0 k rows/s, 96.0 MB, 40%, 6 s left");
  EXPECT_EQ(progress_text("count", 10, 2000, 2, 1), "count: 10 rows, 5 rows/s, 2.0 kB, 100%");
  EXPECT_THAT(progress_text("count", 10, 2000, 100, 0.01), HasSubstr("2 h left"));
  EXPECT_THAT(progress_text("a\nname", 1, 1, 1, 0), HasSubstr("a\\nname: "));
}

TEST(ProgressTest, IsShownOnATerminalIfItTakesLongerThanASecond) {
  ParquetFolder folder;
  auto path = folder.write_rows("a.parquet", 0, 100, 100);
  std::string text;
  {
    ErrorTerminal terminal;
    EXPECT_EQ(range(10).to_table()->num_rows(), 10);
    EXPECT_EQ(read_parquet(path).map_batches(after_more_than_a_second).count(), 100);
    text = terminal.restore();
  }
  EXPECT_THAT(text, AllOf(HasSubstr("count: "), HasSubstr(" rows/s, ")));
  EXPECT_THAT(text, testing::Not(HasSubstr("reading rows")));
  EXPECT_TRUE(text.ends_with("\r\033[K")) << text;  // the line is removed in the end
}

TEST(ProgressTest, OfWhatReadsAllRowsByAnotherName) {
  ParquetFolder folder;
  auto slow = read_parquet(folder.write_rows("a.parquet", 0, 100, 100))
                  .map_batches(after_more_than_a_second);
  std::string text;
  {
    ErrorTerminal terminal;
    EXPECT_GT(slow.size_bytes(), 0);
    ArrowArrayStream stream{};
    slow.to_arrow_stream(&stream);
    EXPECT_EQ(from_arrow_stream(&stream).count(), 100);
    text = terminal.restore();
  }
  EXPECT_THAT(text, AllOf(HasSubstr("size_bytes: "), HasSubstr("to_arrow_stream: ")));
}

// Rows that never leave the threads that made them are counted, too.
TEST(ProgressTest, OfRowsThatAreConsumedWhereTheyAreMade) {
  ParquetFolder folder;
  std::string text;
  std::atomic<int64_t> rows = 0;
  {
    ErrorTerminal terminal;
    Stream stream(read_parquet(folder.write_rows("a.parquet", 0, 300, 100)).plan(), {},
                  {.progress = "consumed", .consume = [&](const BatchPtr& batch) {
                     rows += batch->num_rows();
                     std::this_thread::sleep_for(std::chrono::milliseconds(700));
                   }});
    EXPECT_FALSE(stream.next());
    text = terminal.restore();
  }
  EXPECT_EQ(rows, 300);
  EXPECT_THAT(text, AllOf(HasSubstr("consumed: 200 rows"), HasSubstr("%, ")));
}

TEST(ProgressTest, OfTheOtherSideOfAJoin) {
  ParquetFolder folder;
  auto rows = read_parquet(folder.write_rows("a.parquet", 0, 100, 100), {.columns = {"id"}});
  std::string text;
  {
    ErrorTerminal terminal;
    EXPECT_EQ(rows.join(rows.map_batches(after_more_than_a_second), "id").to_table()->num_rows(),
              100);
    text = terminal.restore();
  }
  EXPECT_THAT(text, HasSubstr("other rows of join"));
}

TEST(ArrowStreamTest, RowsGoOutAndIn) {
  ParquetFolder folder;
  auto rows = read_parquet(folder.write_rows("a.parquet", 0, 50, 10));
  ArrowArrayStream stream{};
  rows.filter(col("id") >= 15).to_arrow_stream(&stream);
  Dataset copy = from_arrow_stream(&stream);
  EXPECT_TRUE(copy.to_table()->Equals(*rows.filter(col("id") >= 15).to_table()));
  EXPECT_EQ(copy.count(), 35);
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { from_arrow_stream(&stream); }),
              HasSubstr("not taken before"));
  message_of(ErrorKind::kInvalidArgument, [&] { from_arrow_stream(nullptr); });
  message_of(ErrorKind::kInvalidArgument, [&] { rows.to_arrow_stream(nullptr); });
  range(0).to_arrow_stream(&stream);
  EXPECT_EQ(from_arrow_stream(&stream).count(), 0);
}

TEST(ArrowStreamTest, ErrorsComeOutOfTheStreamAndItMayBeLeft) {
  ParquetFolder folder;
  auto rows = read_parquet(folder.write_rows("a.parquet", 0, 50, 10));
  ArrowArrayStream stream{};
  rows.map_batches(broken_at_30).to_arrow_stream(&stream);
  EXPECT_THAT(message_of([&] { from_arrow_stream(&stream); }),
              AllOf(HasSubstr("from_arrow_stream"), HasSubstr("broken"), HasSubstr("row group 3")));
  rows.to_arrow_stream(&stream);
  auto reader = check(arrow::ImportRecordBatchReader(&stream), "a test");
  EXPECT_EQ(check(reader->Next(), "a test")->num_rows(), 10);
}

}  // namespace
}  // namespace manta::data
