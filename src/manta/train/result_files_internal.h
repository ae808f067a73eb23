#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "manta/base/json.h"
#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"
#include "manta/train/callback.h"

namespace manta::train {

/// A report as written to result.json: its metrics, training_iteration (from 1), timestamp,
/// time_total_s, and checkpoint_dir_name if it has a checkpoint.
Json result_of(const ReportRecord& report);

/// The most columns of progress.csv: each report's row has all columns. Metrics beyond it are only
/// in result.json, with a warning.
inline constexpr size_t kMostColumns = 4096;

/// Keeps <run>/result.json (one object per line and report) and <run>/progress.csv (one row per
/// report, a column for every scalar metric that has come; parts of nested ones are named "a/b").
/// Nothing reads them back: they are made from the run's reports. Reports that a restart discards
/// stay in them until the next report. A number that JSON cannot hold (NaN, infinity) is null and
/// an empty cell.
///
/// A metric with a new name needs progress.csv to be made anew. That is done at once while the
/// table is small. Later it is done only when enough rows have been added since the last time, so
/// that the average cost of a report does not grow. Until then the new columns are missing;
/// finish() adds them.
class ResultFiles final : public Callback {
 public:
  /// Names begin with a slash. If the name for the lines is empty, there is only the table.
  explicit ResultFiles(std::string folder, std::string lines = "/result.json",
                       std::string table = "/progress.csv")
      : folder_(std::move(folder)), lines_name_(std::move(lines)), table_name_(std::move(table)) {}

  void on_run_start(const RunInfo& run) override;
  Decision on_report(const RunInfo& run, const ReportRecord& report) override;
  void on_run_end(const RunInfo& run, RunOutcome outcome) override;

  /// Makes both files anew, each in one step.
  void rewrite(const std::vector<ReportRecord>& reports);
  /// Adds the last of `reports`. Throws Error(kIo).
  void append(const std::vector<ReportRecord>& reports);
  /// Makes progress.csv complete.
  void finish(const std::vector<ReportRecord>& reports);

  /// All bytes ever written to both files.
  size_t bytes_written() const { return new_bytes_ + widened_bytes_; }

 private:
  void learn_columns(const Json& result);
  std::string row(const Json& result) const;
  void rewrite_table(const std::vector<ReportRecord>& reports);
  size_t table_size(size_t reports) const;

  std::string folder_, lines_name_, table_name_;
  size_t reports_ = 0;  // in the files
  std::vector<std::string> columns_;
  std::unordered_map<std::string, size_t> places_;  // of columns
  size_t written_columns_ = 0;                      // columns that progress.csv has
  size_t table_bytes_ = 0;
  size_t new_bytes_ = 0;      // written for new reports
  size_t widened_bytes_ = 0;  // written again because of new columns
  bool told_of_columns_ = false;
  UniqueFd lines_;
  UniqueFd table_;
};

}  // namespace manta::train
