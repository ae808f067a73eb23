#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "manta/base/error_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/result_files_internal.h"

namespace manta::train {
namespace {

using testing::HasSubstr;

ReportRecord report_record(int64_t index, Json metrics) {
  ReportRecord record;
  record.index = index;
  record.metrics = std::move(metrics);
  return record;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(ResultFilesTest, NewColumnsOfASmallTableAreThereAtOnce) {
  TemporaryFolder folder;
  ResultFiles files(folder.path());
  std::vector<ReportRecord> reports;
  files.rewrite(reports);
  for (int64_t i = 0; i < 20; ++i) {
    reports.push_back(report_record(i, {{str("metric_", i), i}}));
    files.append(reports);
    auto table = lines_of(folder / "progress.csv");
    ASSERT_EQ(table.size(), reports.size() + 1);
    EXPECT_THAT(table[0], HasSubstr(str("metric_", i)));
  }
}

// Each report brings a new metric: the table must not be written again for each of them.
TEST(ResultFilesTest, AReportCostsTheSameHoweverManyThereAre) {
  TemporaryFolder folder;
  ResultFiles files(folder.path());
  std::vector<ReportRecord> reports;
  files.rewrite(reports);
  for (int64_t i = 0; i < 3000; ++i) {
    reports.push_back(report_record(i, {{"loss", 0.5}, {str("metric_", i), i}}));
    files.append(reports);
  }
  files.finish(reports);
  size_t lines = read_text(folder / "result.json").size();
  size_t table = read_text(folder / "progress.csv").size();
  EXPECT_LT(files.bytes_written(), 4 * (lines + table));

  auto rows = lines_of(folder / "progress.csv");
  ASSERT_EQ(rows.size(), 3001u);
  for (const std::string& row : {rows[0], rows[1], rows[1500], rows[3000]})
    EXPECT_EQ(std::count(row.begin(), row.end(), ','), 4 + 3000);
  EXPECT_EQ(rows[1].substr(0, 14), "1,0,0.0,,0.5,0");
  EXPECT_EQ(rows[3000].substr(rows[3000].size() - 5), ",2999");
  // The table must be the same as one written at once.
  std::string appended = read_text(folder / "progress.csv");
  ResultFiles(folder.path()).rewrite(reports);
  EXPECT_EQ(read_text(folder / "progress.csv"), appended);
}

TEST(ResultFilesTest, TheTableHasAGreatestWidth) {
  TemporaryFolder folder;
  ResultFiles files(folder.path());
  std::vector<ReportRecord> reports;
  files.rewrite(reports);
  Json metrics = Json::object();
  for (size_t i = 0; i < kMostColumns; ++i) metrics[str("m", i)] = i;
  testing::internal::CaptureStderr();
  for (int64_t i = 0; i < 2; ++i) {
    reports.push_back(report_record(i, metrics));
    files.append(reports);
  }
  files.finish(reports);
  std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_THAT(warning, HasSubstr("more than 4096 different metrics"));
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);
  auto table = lines_of(folder / "progress.csv");
  EXPECT_EQ(std::count(table[0].begin(), table[0].end(), ','), kMostColumns - 1);
  EXPECT_THAT(lines_of(folder / "result.json")[1], HasSubstr(str("\"m", kMostColumns - 1, "\"")));
}

}  // namespace
}  // namespace manta::train
