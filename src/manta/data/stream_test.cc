#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "manta/data/dataset.h"
#include "manta/data/generator_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/data/stream_internal.h"

namespace manta::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Batch = std::shared_ptr<arrow::RecordBatch>;

std::vector<int64_t> from_to(int64_t first, int64_t end) {
  std::vector<int64_t> values(static_cast<size_t>(end - first));
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::vector<int64_t> sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

// 1010 rows in files of different sizes, one of them without rows, in row groups of at most 37.
Dataset several_files(ParquetFolder& folder) {
  folder.write_rows("a.parquet", 0, 300, 37);
  folder.write_rows("b.parquet", 300, 0, 37);
  folder.write_rows("c.parquet", 300, 10, 37);
  folder.write_rows("d.parquet", 310, 700, 37);
  return read_parquet(folder.path());
}

// A user's function may make more rows, fewer rows, or another column.
Batch twice_without_threes(const Batch& batch) {
  arrow::Int64Builder id, batch_rows;
  for (int64_t value : ints(*batch, "id")) {
    if (value % 3 == 0) continue;
    for (int i = 0; i < 2; ++i) {
      check(id.Append(value), "id");
      check(batch_rows.Append(batch->num_rows()), "batch_rows");
    }
  }
  auto schema = arrow::schema(
      {arrow::field("id", arrow::int64()), arrow::field("batch_rows", arrow::int64())});
  auto ids = check(id.Finish(), "id");
  return arrow::RecordBatch::Make(schema, ids->length(),
                                  {ids, check(batch_rows.Finish(), "batch_rows")});
}

Batch fail_on_500(const Batch& batch) {
  for (int64_t id : ints(*batch, "id")) {
    if (id == 500) throw std::runtime_error("five hundred");
  }
  return batch;
}

// A hundred columns of one.
Batch widened(const Batch& batch) {
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (int i = 0; i < 100; ++i) {
    fields.push_back(arrow::field(std::to_string(i), arrow::int64()));
    arrow::Int64Builder values;
    check(values.AppendValues(ints(*batch, "id")), "id");
    columns.push_back(check(values.Finish(), "id"));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), batch->num_rows(), columns);
}

Batch give_nothing(const Batch&) { return nullptr; }

TEST(StreamTest, WithoutAShuffleRowsComeInTheOrderOfTheFiles) {
  ParquetFolder folder;
  auto dataset = several_files(folder);
  EXPECT_EQ(read_ids(dataset.plan()), from_to(0, 1010));
}

TEST(StreamTest, ThreadsBudgetAndBlockSizeDoNotChangeTheRows) {
  ParquetFolder folder;
  auto rows = several_files(folder).filter(col("id") >= 0);
  auto shuffled = rows.drop_na().window_shuffle({.rows = 100, .seed = 7});
  auto mapped = shuffled.map_batches(twice_without_threes, {.batch_size = 16});
  for (const auto& dataset : {rows, shuffled, mapped}) {
    auto once = read_ids(dataset.plan());
    for (int threads : {1, 2, 4}) {
      for (int64_t budget : {0, 3000, 1 << 20}) {
        for (int64_t block : {1, 10, 65536}) {
          StreamOptions options{.threads = threads, .byte_budget = budget, .max_block_rows = block};
          EXPECT_EQ(read_ids(dataset.plan(), {}, options), once);
        }
      }
    }
  }
}

TEST(StreamTest, AShuffleKeepsEveryRowOnceAndDependsOnSeedAndEpoch) {
  ParquetFolder folder;
  auto rows = several_files(folder);
  auto dataset = rows.window_shuffle({.rows = 200, .seed = 1});
  auto other_seed = rows.window_shuffle({.rows = 200, .seed = 2});
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch : {0, 1, 2}) {
    auto order = read_ids(dataset.plan(), {.epoch = epoch});
    EXPECT_EQ(read_ids(dataset.plan(), {.epoch = epoch}), order);
    EXPECT_EQ(sorted(order), from_to(0, 1010));
    orders.insert(order);
    orders.insert(read_ids(other_seed.plan(), {.epoch = epoch}));
  }
  orders.insert(from_to(0, 1010));
  EXPECT_EQ(orders.size(), 7u);
}

// Stopped runs must be able to resume with the next release.
TEST(StreamTest, TheOrderOfAShuffleNeverChanges) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 12, 3));
  EXPECT_THAT(read_ids(dataset.window_shuffle({.rows = 6, .seed = 42}).plan(), {.epoch = 3}),
              ElementsAre(3, 4, 5, 10, 9, 11, 0, 2, 8, 7, 1, 6));
}

TEST(StreamTest, WindowsHaveAtLeastTheRowsThatWereAskedFor) {
  ParquetFolder folder;
  auto dataset = several_files(folder).window_shuffle({.rows = 100, .seed = 1});
  Stream stream(dataset.plan(), {}, {});
  std::map<int64_t, int64_t> rows;
  while (auto block = stream.next()) rows[block->window] += block->batch->num_rows();
  ASSERT_GT(rows.size(), 5u);
  EXPECT_EQ(rows.rbegin()->first, static_cast<int64_t>(rows.size()) - 1);
  rows.erase(std::prev(rows.end()));
  for (const auto& [window, count] : rows) {
    EXPECT_GE(count, 100);
    EXPECT_LT(count, 100 + 37);
  }
}

TEST(StreamTest, AnyWindowCanBeWhereAPassGoesOn) {
  ParquetFolder folder;
  auto dataset = several_files(folder)
                     .filter(col("half") > 20)
                     .window_shuffle({.rows = 150, .seed = 3})
                     .map_batches(twice_without_threes, {.batch_size = 50});
  auto all = read_ids(dataset.plan(), {.epoch = 5});
  std::map<int64_t, int64_t> windows;
  Stream stream(dataset.plan(), {.epoch = 5}, {.max_block_rows = 7});
  while (auto block = stream.next()) windows[block->window] = block->window_first_row;
  ASSERT_GE(windows.size(), 4u);
  for (const auto& [window, first_row] : windows) {
    auto rest = read_ids(dataset.plan(), {5, window, first_row}, {.threads = 2});
    EXPECT_EQ(rest, std::vector<int64_t>(all.begin() + first_row, all.end()));
  }
}

TEST(StreamTest, AWindowThatIsNotThereIsRefused) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 25, 10));
  StreamStart none[] = {
      {0, 3, 25}, {0, 1'000'000'000, 25}, {0, -1, 0}, {-1, 0, 0}, {0, 0, 1}, {0, 2, 21},
      {0, 1, -1}};
  for (const auto& start : none) {
    message_of(ErrorKind::kCorrupt, [&] { read_ids(dataset.plan(), start); });
  }
  EXPECT_EQ(read_ids(dataset.plan(), {0, 2, 20}).size(), 5);
}

TEST(StreamTest, MapBatchesGetsBatchesCutInsideARowGroup) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 25, 10))
                     .map_batches(twice_without_threes, {.batch_size = 4});
  auto table = dataset.to_table();
  std::vector<int64_t> ids, batch_rows;
  for (int64_t id = 0; id < 25; ++id) {
    if (id % 3 == 0) continue;
    for (int i = 0; i < 2; ++i) {
      ids.push_back(id);
      batch_rows.push_back(id % 10 < 8 && id < 24 ? 4 : id < 20 ? 2 : 1);
    }
  }
  EXPECT_EQ(ints(*table, "id"), ids);
  EXPECT_EQ(ints(*table, "batch_rows"), batch_rows);
}

TEST(StreamTest, WhatAUserFunctionThrowsNamesItAndTheRowGroup) {
  ParquetFolder folder;
  auto dataset = several_files(folder).map_batches(fail_on_500);
  Stream stream(dataset.plan(), {}, {.threads = 3});
  int64_t rows = 0;
  auto message = message_of(ErrorKind::kUserCode, [&] {
    while (auto block = stream.next()) rows += block->batch->num_rows();
  });
  EXPECT_EQ(rows, 310 + 5 * 37);  // all windows before it
  EXPECT_THAT(message, HasSubstr("fail_on_500"));
  EXPECT_THAT(message, HasSubstr("row group 5 of '" + folder.file("d.parquet")));
  EXPECT_THAT(message, HasSubstr("std::runtime_error: five hundred"));
  EXPECT_EQ(message_of(ErrorKind::kUserCode, [&] { stream.next(); }), message);
  auto nothing = several_files(folder).map_batches(give_nothing);
  EXPECT_THAT(message_of(ErrorKind::kUserCode, [&] { nothing.to_table(); }),
              HasSubstr("returned no batch"));
}

// 200,000 rows in one row group: 7 pieces are decoded of it.
TEST(StreamTest, AWindowIsGivenBeforeAllOfItIsRead) {
  constexpr int64_t kRows = 200'000;
  ParquetFolder folder;
  auto rows = read_parquet(folder.write_rows("a.parquet", 0, kRows, kRows)).filter(col("id") >= 0);
  for (int threads : {1, 3}) {
    Stream stream(rows.plan(), {}, {.threads = threads, .byte_budget = 1});
    std::vector<int64_t> ids;
    while (auto block = stream.next()) {
      // The piece that was taken, and the next one.
      EXPECT_LE(stream.rows_decoded(), block->first_row + 3 * kPieceRows);
      EXPECT_EQ(block->window, 0);
      auto more = ints(*block->batch, "id");
      ids.insert(ids.end(), more.begin(), more.end());
    }
    EXPECT_EQ(ids, from_to(0, kRows));
  }
  // Rows before an error are given, however the threads ran.
  auto failing = rows.with_column("x", (col("id") - 150'000).cast("uint32").cast("string"));
  auto bad = rows.with_column("x", (lit(150'000) - col("id")).cast("uint32"));
  Stream stream(bad.plan(), {}, {.threads = 2, .byte_budget = 1 << 20});
  int64_t given = 0;
  auto message = message_of([&] {
    while (auto block = stream.next()) given += block->batch->num_rows();
  });
  EXPECT_EQ(given, 150'000 / kPieceRows * kPieceRows);
  EXPECT_THAT(message, HasSubstr("row group 0"));
  EXPECT_EQ(message_of([&] { stream.next(); }), message);
  EXPECT_THAT(message_of([&] { Stream(failing.plan(), {}, {}).next(); }), HasSubstr("row group 0"));
}

TEST(StreamTest, WindowsThatAreFarLargerThanExpectedWaitForTheirTurn) {
  ParquetFolder folder;
  arrow::Int64Builder ids;
  arrow::StringBuilder texts;
  constexpr int64_t kRows = 2'000, kBytes = 4'000;
  for (int64_t i = 0; i < kRows; ++i) {
    check(ids.Append(i), "id");
    check(texts.Append(std::string(kBytes, static_cast<char>('a' + i % 26))), "text");
  }
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("t", arrow::utf8())}),
      {check(ids.Finish(), "ids"), check(texts.Finish(), "texts")});
  auto plan = read_parquet(folder.write("a.parquet", *table, 100)).plan();
  for (int threads : {1, 4}) {
    StreamOptions options{.threads = threads, .byte_budget = 100 * kBytes};
    EXPECT_EQ(read_ids(plan, {}, options), from_to(0, kRows));
    options.max_block_bytes = 10 * kBytes;
    Stream stream(plan, {}, options);
    int64_t row = 0, blocks = 0;
    for (; auto block = stream.next(); ++blocks) {
      EXPECT_LE(block->bytes, options.max_block_bytes);
      EXPECT_EQ(block->first_row, row);
      EXPECT_EQ(block->window, row / 100);
      EXPECT_EQ(block->window_first_row, row / 100 * 100);
      row += block->batch->num_rows();
    }
    EXPECT_EQ(row, kRows);
    EXPECT_GE(blocks, kRows / 10);
  }
}

// What all rows share is not cut, however large it is.
TEST(StreamTest, ADictionaryThatIsLargeDoesNotMakeBlocksSmall) {
  arrow::StringBuilder words;
  arrow::Int32Builder codes;
  for (int i = 0; i < 1'000; ++i) {
    check(words.Append(std::string(1'000, 'w') + std::to_string(i)), "a word");
    check(codes.Append(i), "a code");
  }
  auto column = check(arrow::DictionaryArray::FromArrays(check(codes.Finish(), "codes"),
                                                         check(words.Finish(), "words")),
                      "a dictionary");
  auto rows =
      from_arrow(arrow::Table::Make(arrow::schema({arrow::field("w", column->type())}), {column}));
  Stream stream(rows.plan(), {}, {.max_block_bytes = 10'000});
  EXPECT_EQ(stream.next()->batch->num_rows(), 1'000);
  EXPECT_FALSE(stream.next());
}

TEST(StreamTest, ADamagedFileIsNamed) {
  ParquetFolder folder;
  several_files(folder);
  std::fstream file(folder.file("d.parquet"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(2000);
  file << std::string(3000, '\xff');
  file.close();
  auto dataset = read_parquet(folder.path());
  auto message = message_of(ErrorKind::kCorrupt, [&] { read_ids(dataset.plan()); });
  EXPECT_THAT(message, HasSubstr("row group"));
  EXPECT_THAT(message, HasSubstr(folder.file("d.parquet")));
}

TEST(StreamTest, ItStopsWhenNoMoreRowsAreWanted) {
  ParquetFolder folder;
  auto dataset = several_files(folder);
  for (int i = 0; i < 20; ++i) {
    Stream stream(dataset.plan(), {}, {.threads = 3, .byte_budget = 2000});
    if (i % 2 == 0) stream.next();
  }
}

TEST(StreamTest, TheBudgetBoundsWhatIsReadAhead) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 10000, 100), {.columns = {"id"}});
  Stream stream(dataset.plan(), {}, {.threads = 2, .byte_budget = 5 * 100 * 8});
  for (int64_t taken = 1; auto block = stream.next(); ++taken) {
    EXPECT_LE(stream.rows_decoded(), (taken + 7) * 100);
  }
  EXPECT_EQ(stream.rows_decoded(), 10000);
}

TEST(StreamTest, ReadingStopsWhereThereIsEnough) {
  ParquetFolder folder;
  folder.write_rows("a.parquet", 0, 1000, 10);
  auto plan = read_parquet(folder.path()).plan();
  for (int threads : {1, 3}) {
    StreamOptions options{.threads = threads, .enough_bytes = 0};
    Stream stream(plan, {}, options);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    // The window whose turn it is, and one for each thread.
    EXPECT_LE(stream.rows_decoded(), 10 * (threads + 1));
    EXPECT_EQ(read_ids(plan, {}, options), from_to(0, 1000));
  }
}

TEST(StreamTest, ReadingThreadsMayConsume) {
  ParquetFolder folder;
  auto files = several_files(folder);
  for (const auto& dataset :
       {files, files.window_shuffle({.rows = 100, .seed = 7}), files.sort("id")}) {
    for (int threads : {1, 4}) {
      std::mutex mutex;
      std::vector<int64_t> seen;
      Stream stream(dataset.plan(), {}, {.threads = threads, .consume = [&](const Batch& batch) {
                                           std::lock_guard lock(mutex);
                                           for (int64_t id : ints(*batch, "id")) seen.push_back(id);
                                         }});
      EXPECT_FALSE(stream.next());
      EXPECT_EQ(sorted(seen), from_to(0, 1010));
    }
  }
  Stream failing(files.plan(), {}, {.threads = 2, .consume = [](const Batch& batch) {
                                      for (int64_t id : ints(*batch, "id")) {
                                        if (id >= 500) throw std::runtime_error(std::to_string(id));
                                      }
                                    }});
  try {
    failing.next();
    FAIL() << "it gave rows";
  } catch (const std::runtime_error& error) {
    // The error of the first rows among those that were read.
    EXPECT_EQ(std::string(error.what()), "500");
  }
}

TEST(StreamTest, TheBudgetBoundsWhatAFunctionMakesOfFewColumns) {
  ParquetFolder folder;
  auto dataset = read_parquet(folder.write_rows("a.parquet", 0, 10000, 100), {.columns = {"id"}})
                     .map_batches(widened);
  Stream stream(dataset.plan(), {}, {.threads = 8, .byte_budget = 5 * 100 * 800});
  for (int64_t taken = 1; auto block = stream.next(); ++taken) {
    if (taken < 20 || taken % 10 != 0) continue;                 // begun before their size is known
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // time to read too much
    EXPECT_LE(stream.rows_decoded(), (taken + 7) * 100);
  }
  EXPECT_EQ(stream.rows_decoded(), 10000);
}

TEST(StreamTest, FewerThreadsThanOneAreRefused) {
  ParquetFolder folder;
  auto dataset = several_files(folder);
  message_of(ErrorKind::kInvalidArgument, [&] { Stream(dataset.plan(), {}, {.threads = 0}); });
}

// With room for the stack of one more thread, and not of two.
TEST(StreamTest, FewerThreadsThanWereAskedForGiveTheSameRows) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more address space than this leaves";
#endif
  ParquetFolder folder;
  auto dataset = several_files(folder);
  pthread_attr_t usual, large;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&large), 0);
  rlimit unlimited{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &unlimited), 0);
  constexpr rlim_t kStack = rlim_t{1} << 30;
  auto with_room_for = [&](rlim_t stacks_in_halves, auto call) {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = unlimited;
    limit.rlim_cur =
        static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE)) + stacks_in_halves * kStack / 2;
    ASSERT_EQ(::pthread_attr_setstacksize(&large, kStack), 0);
    ASSERT_EQ(::pthread_setattr_default_np(&large), 0);
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    call();
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &unlimited), 0);
    ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  };
  std::vector<int64_t> ids;
  with_room_for(3, [&] { ids = read_ids(dataset.plan(), {}, {.threads = 4}); });
  EXPECT_EQ(ids, from_to(0, 1010));
  std::string message;
  with_room_for(1, [&] {
    message =
        message_of(ErrorKind::kResources, [&] { Stream(dataset.plan(), {}, {.threads = 4}); });
  });
  EXPECT_THAT(message, HasSubstr("starting a thread"));
}

TEST(GeneratorTest, NumbersNeverChange) {
  Generator generator({42, 3});
  EXPECT_EQ(generator.next(), 9706463062324140006u);
  EXPECT_EQ(generator.next(), 11594449114511874101u);
  EXPECT_NE(Generator({3, 42}).next(), Generator({42, 3}).next());
  EXPECT_NE(Generator({42}).next(), Generator({42, 0}).next());
}

TEST(GeneratorTest, EveryOrderIsEquallyLikely) {
  std::map<std::vector<uint32_t>, int> counts;
  for (uint64_t key = 0; key < 24000; ++key) ++counts[Generator({key}).permutation(4)];
  EXPECT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 160);  // 5 deviations
}

}  // namespace
}  // namespace manta::data
