#include <gmock/gmock.h>

#include <atomic>
#include <ctime>
#include <fstream>
#include <thread>

#include "manta/base/deadline.h"
#include "manta/data/dataset.h"
#include "manta/data/operation_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/reading_choice_internal.h"
#include "manta/data/sources.h"

namespace manta::data {
namespace {

using testing::HasSubstr;

struct ChoiceCase {
  const char* name;
  MeasuredReading measured;
  ReadingFacts facts;
  bool split;
  const char* why;
};
const ChoiceCase kChoices[] = {
    {"much to decode, little to send", {100, 1, 0.5, 1 << 20}, {2, 2, 500e6}, true, "125.5 ms"},
    {"little to decode", {100, 1, 0.001, 1 << 20}, {2, 2, 500e6}, false, "to send"},
    {"text, between hosts that encrypt as fast as they decode",
     {100, 1, 0.015, 5'500'000},
     {2, 2, 1e9},
     true,
     "7.5 ms to read and 5.5 ms to send: 5.1 ms"},
    {"numbers, between the same", {100, 1, 0.0052, 13'700'000}, {2, 2, 1e9}, false, "4.7 ms if"},
    {"a slow network", {100, 1, 0.5, 100 << 20}, {2, 2, 10e6}, false, "to send"},
    {"filters leave no rows", {100, 3, 0.1, 0}, {2, 1, 500e6}, true, "to send"},
    {"more hosts", {100, 1, 0.02, 4 << 20}, {2, 1, 400e6}, true, "2 hosts"},
    {"many threads decode faster than the network",
     {100, 1, 0.02, 4 << 20},
     {2, 16, 400e6},
     false,
     "to send"},
    {"fewer windows than hosts", {1, 1, 5, 100}, {2, 1, 500e6}, false, "fewer windows (1)"},
    {"three windows for two hosts", {3, 3, 3, 100}, {2, 1, 500e6}, true, "666.7 ms"},
    {"no answer", {100, 1, 5, 100}, {2, 1, 0}, false, "did not answer"},
};

TEST(ReadingChoiceTest, IsWhatTakesLess) {
  for (const auto& each : kChoices) {
    SCOPED_TRACE(each.name);
    ReadingChoice choice = choose_reading(each.measured, each.facts);
    EXPECT_EQ(choice.split, each.split) << choice.why;
    EXPECT_THAT(choice.why, HasSubstr(each.why));
  }
}

TEST(ReadingChoiceTest, MeasuresTheFirstWindows) {
  ParquetFolder folder;
  Dataset rows = read_parquet(folder.write_rows("a.parquet", 0, 1000, 100));
  auto measured = measure_reading(rows.plan(), {0, 250, 2, 200});
  EXPECT_EQ(measured.windows_left, 8);
  EXPECT_GE(measured.windows, 1);
  EXPECT_LE(measured.windows, 3);
  EXPECT_GE(measured.bytes, measured.windows * 100 * 16);
  EXPECT_GT(measured.seconds, 0);
}

TEST(ReadingChoiceTest, TheFirstOfSeveralWindowsDoesNotCount) {
  ParquetFolder folder;
  auto plan = read_parquet(folder.write_rows("a.parquet", 0, 1000, 100)).plan();
  EXPECT_EQ(measure_reading(plan, {}).windows, 2);
  auto last = measure_reading(plan, {0, 900, 9, 900});
  EXPECT_EQ(last.windows, 1);
  EXPECT_GE(last.bytes, 100 * 16);
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

BatchPtr work_for_15_ms(const BatchPtr& batch) {
  for (double begin = processor_seconds(); processor_seconds() < begin + 0.015;) {
  }
  return batch;
}

TEST(ReadingChoiceTest, WaitsForAProcessorDoNotCount) {
  if (!std::ifstream("/proc/thread-self/schedstat")) {
    GTEST_SKIP() << "this system does not say how long a thread waits for a processor";
  }
  std::atomic<bool> ends{false};
  std::vector<std::thread> others;
  for (unsigned i = 0; i < 8 * std::thread::hardware_concurrency(); ++i) {
    others.emplace_back([&] {
      while (!ends) {
      }
    });
  }
  ParquetFolder folder;
  auto plan =
      read_parquet(folder.write_rows("a.parquet", 0, 1000, 100)).map_batches(work_for_15_ms).plan();
  auto begin = Clock::now();
  auto measured = measure_reading(plan, {});
  std::chrono::duration<double> took = Clock::now() - begin;
  ends = true;
  for (auto& each : others) each.join();
  EXPECT_EQ(measured.windows, 2);
  EXPECT_GE(measured.seconds, 0.02);
  EXPECT_LT(measured.seconds, took.count() / 2) << "half of " << took.count() << " s";
}

TEST(ReadingChoiceTest, RowsThatAreViewsCountAsThemselves) {
  constexpr int64_t kRows = 10 * kPieceRows;
  auto measured = measure_reading(from_arrow(table_of_ids(kRows, kRows)).plan(), {});
  EXPECT_EQ(measured.windows_left, 10);
  EXPECT_EQ(measured.bytes, measured.windows * kPieceRows * 8);
}

TEST(ReadingChoiceTest, WhatNeedsAllRowsIsNotSplit) {
  ParquetFolder folder;
  Dataset rows = read_parquet(folder.write_rows("a.parquet", 0, 1000, 100));
  EXPECT_EQ(why_not_split(*rows.window_shuffle({.rows = 300}).plan()), "");
  EXPECT_THAT(why_not_split(*rows.sort("id").plan()), HasSubstr("needs all rows for sort"));
}

}  // namespace
}  // namespace manta::data
