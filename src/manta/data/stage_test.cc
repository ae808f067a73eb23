#include <gtest/gtest.h>

#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/row_store_internal.h"
#include "manta/data/stage_internal.h"

namespace manta::data {
namespace {

// Which windows of the last stage are read is no matter of the stages before it.
TEST(StageTest, WhatMaterialisesSeesAllWindows) {
  ParquetFolder folder;
  Dataset rows = read_parquet(folder.write_rows("a.parquet", 0, 1000, 100));
  Dataset sorted = rows.sort("id", {.descending = true});
  StreamOptions every_second{.by_window = true, .part = 1, .parts = 2};
  auto last = last_stage(sorted.plan(), 0, every_second);
  EXPECT_EQ(stored_rows(*last->source)->rows(), 1000);
}

}  // namespace
}  // namespace manta::data
