#include <gmock/gmock.h>

#include <atomic>

#include "manta/base/error_of_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/row_store_internal.h"
#include "manta/data/stage_internal.h"
#include "manta/data/stop_check_internal.h"

namespace manta::data {
namespace {

// The stages before the last do not depend on which of its windows are read.
TEST(StageTest, WhatMaterialisesSeesAllWindows) {
  ParquetFolder folder;
  Dataset rows = read_parquet(folder.write_rows("a.parquet", 0, 1000, 100));
  Dataset sorted = rows.sort("id", {.descending = true});
  StreamOptions every_second{.by_window = true, .part = 1, .parts = 2};
  auto last = last_stage(sorted.plan(), 0, every_second);
  EXPECT_EQ(stored_rows(*last->source)->rows(), 1000);
}

TEST(StageTest, ACallerThatNoLongerWantsTheRowsNeedNotWaitForThem) {
  ParquetFolder folder;
  Dataset sorted = read_parquet(folder.write_rows("a.parquet", 0, 1000, 100)).sort("id");
  std::atomic<int> asked = 0;
  StopCheck check([&] { return ++asked > 3; });
  for (const Dataset& dataset :
       {sorted, sorted.filter(col("id") > 5), sorted.sort("id").limit(5)}) {
    asked = 0;
    Error error = error_of([&] { Stream(dataset.plan(), {}, {}); });
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
    EXPECT_THAT(error.what(), testing::HasSubstr("nobody wants them any more"));
  }
  asked = 0;
  EXPECT_EQ(error_of([&] { sorted.materialize(); }).kind(), ErrorKind::kCancelled);
}

}  // namespace
}  // namespace manta::data
