#include <gmock/gmock.h>

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
    {"much to decode, little to send", {100, 1, 0.5, 1 << 20}, {2, 2, 500e6}, true, "126.0 ms"},
    {"little to decode", {100, 1, 0.001, 1 << 20}, {2, 2, 500e6}, false, "to send"},
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
