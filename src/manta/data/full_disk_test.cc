// A disk without room for what operations must write.

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <iostream>

#include "manta/base/error_of_internal.h"
#include "manta/core/running_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/data/aggregate.h"
#include "manta/data/data_test_job_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/grouped.h"
#include "manta/data/sources.h"

namespace manta::data {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr int64_t kRowsTooMany = 3'000'000;  // of 32 bytes
constexpr const char* kSmallDisk = "16m";
constexpr int kMayNotMount = 77;

fs::path disk() { return fs::path(temporary_folder()).parent_path(); }

uint64_t free_blocks() {
  struct statvfs room {};
  if (::statvfs(disk().c_str(), &room) != 0) return 0;
  return room.f_bfree;
}

int64_t entries() {
  return std::distance(fs::recursive_directory_iterator(disk()),
                       fs::recursive_directory_iterator());
}

// Prints a line: which call failed, how, and whether it left any files.
template <class Call>
void fail_at(const std::string& what, Call call) {
  uint64_t blocks = free_blocks();
  int64_t files = entries();
  Json line = {{"what", what}};
  try {
    call();
    line["says"] = "nothing failed";
  } catch (const Error& error) {
    line["io"] = error.kind() == ErrorKind::kIo;
    line["says"] = error.what();
  }
  line["left"] = entries() - files;
  line["blocks_left"] = blocks - free_blocks();
  std::cout << line.dump() << std::endl;
}

Dataset wide_rows() {
  Dataset rows = range(kRowsTooMany);
  for (const char* name : {"a", "b", "c"}) {
    rows = rows.with_column(name, (col("id") * 7919) % 1'000'003 * 0.37);
  }
  return rows;
}

TEST(FullDiskTest, IsAnErrorThatSaysWhatWasNeededAndLeavesNothing) {
  TemporaryFolder folder;
  fs::create_directory(folder / "disk");
  Running job(
      {"unshare", "-m", "sh", "-c",
       "mount --make-rprivate / && mount -t tmpfs -o size=$1 none \"$0\" || exit 77; exec \"$2\"",
       folder / "disk", kSmallDisk, fs::read_symlink("/proc/self/exe")},
      {{kDataJobVariable, "fill"}, {"TMPDIR", folder / "disk"}}, folder / "out");
  auto code = job.exit_code();
  if (code == kMayNotMount || job.said().find("unshare failed") != std::string::npos) {
    GTEST_SKIP() << "this process may not mount anything: " << job.said();
  }
  ASSERT_EQ(code, 0) << job.said();
  std::istringstream out(job.said());
  int lines = 0;
  for (std::string text; std::getline(out, text);) {
    if (!text.starts_with("{")) continue;
    ++lines;
    Json line = Json::parse(text);
    SCOPED_TRACE(line.dump(2));
    std::string what = line["what"];
    EXPECT_EQ(line.value("io", false), true);
    EXPECT_EQ(line["left"], 0);
    EXPECT_EQ(line["blocks_left"], 0);
    EXPECT_THAT(line["says"].get<std::string>(),
                AllOf(HasSubstr(folder / "disk"), ContainsRegex("[0-9]+ bytes (left|before)"),
                      ContainsRegex("[0-9]+ (of 3000000 )?rows")));
    if (what.starts_with("write")) {
      EXPECT_THAT(line["says"].get<std::string>(),
                  AllOf(HasSubstr("No space left on device"), HasSubstr("choose another one")));
    } else {
      EXPECT_THAT(line["says"].get<std::string>(), HasSubstr("set TMPDIR"));
    }
  }
  EXPECT_EQ(lines, 11) << job.said();
}

}  // namespace

int fill_disk() {
  constexpr int64_t kLittle = 64 << 20;
  Dataset rows = wide_rows();
  auto run = [](const Dataset& dataset) { dataset.to_table(); };
  fail_at("sort", [&] { run(rows.sort("a", {.memory_bytes = kLittle})); });
  fail_at("sort by two", [&] { run(rows.sort({"a", "id"}, {.memory_bytes = kLittle})); });
  fail_at("random_shuffle",
          [&] { run(rows.random_shuffle({.seed = 1, .memory_bytes = kLittle})); });
  fail_at("group_by", [&] {
    run(rows.groupby("id", {.memory_bytes = kLittle})
            .aggregate({agg::mean("a"), agg::mean("b"), agg::mean("c")}));
  });
  fail_at("join", [&] {
    run(rows.join(wide_rows(), "id", {.right_suffix = "2", .memory_bytes = kLittle}));
  });
  fail_at("repartition", [&] { run(rows.repartition(7)); });
  fail_at("materialize", [&] { rows.materialize(); });
  std::string out = disk() / "out";
  fs::create_directory(out);
  fail_at("write_parquet", [&] { rows.write_parquet(out, {.rows_per_file = 200'000}); });
  fail_at("write_csv", [&] { rows.write_csv(out); });
  fail_at("write_json", [&] { rows.write_json(out); });
  fail_at("write_numpy", [&] { rows.write_numpy(out, {.column = "a"}); });
  return 0;
}

}  // namespace manta::data
