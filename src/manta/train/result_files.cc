#include <fcntl.h>

#include <cmath>
#include <map>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/metric_internal.h"
#include "manta/train/result_files_internal.h"

namespace manta::train {
namespace {

constexpr const char* kFirstColumns[] = {"training_iteration", "timestamp", "time_total_s",
                                         "checkpoint_dir_name"};
// Rewriting this many bytes costs nothing that matters, and shows new columns at once.
constexpr size_t kFreeBytes = size_t{1} << 20;

// Scalars by name; scalars inside objects as "outer/inner". Histograms and texts are in result.json
// only.
std::map<std::string, Json> scalars_of(const Json& result) {
  std::map<std::string, Json> scalars;
  for_each_metric(result, [&](const std::string& name, const Json& metric) {
    if (!metric.is_object()) scalars[name] = metric;
  });
  return scalars;
}

std::string cell(const Json& value) {
  if (value.is_null() || (value.is_number_float() && !std::isfinite(value.get<double>())))
    return "";
  std::string text = value.is_string() ? value.get<std::string>() : to_text(value);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

UniqueFd open_to_append(const std::string& folder, const std::string& name) {
  return open_file(folder, name.substr(1), O_WRONLY | O_APPEND);
}

}  // namespace

Json result_of(const ReportRecord& report) {
  Json result = report.metrics.is_object() ? report.metrics : Json::object();
  result["training_iteration"] = report.index + 1;
  result["timestamp"] = static_cast<int64_t>(report.time);
  result["time_total_s"] = report.time_total_s;
  if (!report.checkpoint.empty()) result["checkpoint_dir_name"] = report.checkpoint;
  return result;
}

void ResultFiles::on_run_start(const RunInfo& run) { rewrite(run.reports); }

Decision ResultFiles::on_report(const RunInfo& run, const ReportRecord&) {
  if (run.reports.size() == reports_ + 1) {
    append(run.reports);
  } else {
    rewrite(run.reports);
  }
  return Decision::go_on();
}

void ResultFiles::on_run_end(const RunInfo& run, RunOutcome) {
  if (run.reports.size() == reports_) {
    finish(run.reports);
  } else {
    rewrite(run.reports);
  }
}

void ResultFiles::learn_columns(const Json& result) {
  for (const auto& [name, value] : scalars_of(result)) {
    if (places_.contains(name)) continue;
    if (columns_.size() < kMostColumns) {
      places_[name] = columns_.size();
      columns_.push_back(name);
    } else if (!std::exchange(told_of_columns_, true)) {
      log_warning(str("the reports have more than ", kMostColumns, " different metrics: '", name,
                      "' and other new ones are in result.json, not in progress.csv"));
    }
  }
}

std::string ResultFiles::row(const Json& result) const {
  std::map<size_t, std::string> cells;
  for (const auto& [name, value] : scalars_of(result)) {
    auto place = places_.find(name);
    if (place != places_.end() && place->second < written_columns_)
      cells[place->second] = cell(value);
  }
  std::string line;
  size_t at = 0;
  for (const auto& [place, text] : cells) {
    line.append(place - at, ',');
    line += text;
    at = place;
  }
  line.append(written_columns_ - 1 - at, ',');
  return line + "\n";
}

void ResultFiles::rewrite_table(const std::vector<ReportRecord>& reports) {
  written_columns_ = columns_.size();
  std::string text;
  for (const std::string& column : columns_) text += (text.empty() ? "" : ",") + cell(Json(column));
  text += "\n";
  for (const ReportRecord& report : reports) text += row(result_of(report));
  replace_file(folder_ + table_name_, text);
  table_ = open_to_append(folder_, table_name_);
  table_bytes_ = text.size();
}

// The approximate size if the table is made anew now: every row gets a comma for each new column.
size_t ResultFiles::table_size(size_t reports) const {
  return table_bytes_ + (columns_.size() - written_columns_) * (reports + 1);
}

void ResultFiles::rewrite(const std::vector<ReportRecord>& reports) {
  columns_.clear();
  places_.clear();
  for (const char* name : kFirstColumns) {
    places_[name] = columns_.size();
    columns_.push_back(name);
  }
  std::string text;
  for (const ReportRecord& report : reports) {
    Json result = result_of(report);
    learn_columns(result);
    text += to_text(result) + "\n";
  }
  if (!lines_name_.empty()) {
    replace_file(folder_ + lines_name_, text);
    lines_ = open_to_append(folder_, lines_name_);
  }
  rewrite_table(reports);
  reports_ = reports.size();
  new_bytes_ += text.size() + table_bytes_;
}

void ResultFiles::append(const std::vector<ReportRecord>& reports) {
  Json result = result_of(reports.back());
  reports_ = 0;  // if this fails, the files are made anew
  std::string line = to_text(result) + "\n";
  if (lines_) write_all(lines_.get(), line.data(), line.size(), folder_ + lines_name_);
  new_bytes_ += line.size();
  learn_columns(result);
  bool is_wider = columns_.size() > written_columns_;
  if (is_wider && widened_bytes_ + table_size(reports.size()) <= kFreeBytes + new_bytes_) {
    finish(reports);
  } else {
    line = row(result);
    write_all(table_.get(), line.data(), line.size(), folder_ + table_name_);
    table_bytes_ += line.size();
    new_bytes_ += line.size();
  }
  reports_ = reports.size();
}

void ResultFiles::finish(const std::vector<ReportRecord>& reports) {
  if (columns_.size() == written_columns_) return;
  rewrite_table(reports);
  widened_bytes_ += table_bytes_;
}

}  // namespace manta::train
