#pragma once

#include <string>
#include <vector>

#include "manta/base/json.h"
#include "manta/io/unique_fd.h"
#include "manta/train/journal_internal.h"

namespace manta::train {

/// A report as it stands in result.json: its metrics, training_iteration (from 1), timestamp,
/// time_total_s, and checkpoint_dir_name if it has a checkpoint.
Json result_of(const ReportRecord& report);

/// Keeps <run>/result.json (one object per line and report) and <run>/progress.csv (one row per
/// report, a column for every scalar metric that has come; parts of nested ones are named "a/b").
/// Nothing reads them back: they are made from the history. A number that JSON cannot hold (NaN,
/// infinity) is null and an empty cell.
class ResultFiles {
 public:
  explicit ResultFiles(std::string folder) : folder_(std::move(folder)) {}
  /// Makes both files anew, each in one step.
  void rewrite(const std::vector<ReportRecord>& reports);
  /// Adds the last of `reports`. A metric with a new name rewrites progress.csv. Throws Error(kIo).
  void append(const std::vector<ReportRecord>& reports);

 private:
  bool learn_columns(const Json& result);
  std::string row(const Json& result) const;
  void rewrite_table(const std::vector<ReportRecord>& reports);

  std::string folder_;
  std::vector<std::string> columns_;
  UniqueFd lines_;
  UniqueFd table_;
};

}  // namespace manta::train
