#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "manta/base/error.h"
#include "manta/train/file_internal.h"
#include "manta/train/result_files_internal.h"

namespace manta::train {
namespace {

const std::vector<std::string> kFirstColumns = {"training_iteration", "timestamp", "time_total_s",
                                                "checkpoint_dir_name"};

// Scalars by name; those inside objects as "outer/inner".
void flatten(const Json& json, const std::string& prefix, std::map<std::string, Json>& scalars) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      flatten(value, prefix + key + "/", scalars);
    } else if (!value.is_array()) {
      scalars[prefix + key] = value;
    }
  }
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

UniqueFd open_to_append(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!fd) throw_errno(str("opening '", path, "'"));
  return fd;
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

// True if there are new ones.
bool ResultFiles::learn_columns(const Json& result) {
  std::map<std::string, Json> scalars;
  flatten(result, "", scalars);
  size_t before = columns_.size();
  for (const auto& [name, value] : scalars)
    if (std::find(columns_.begin(), columns_.end(), name) == columns_.end())
      columns_.push_back(name);
  return columns_.size() > before;
}

std::string ResultFiles::row(const Json& result) const {
  std::map<std::string, Json> scalars;
  flatten(result, "", scalars);
  std::string line;
  for (const std::string& column : columns_) {
    auto value = scalars.find(column);
    if (&column != &columns_.front()) line += ',';
    if (value != scalars.end()) line += cell(value->second);
  }
  return line + "\n";
}

void ResultFiles::rewrite_table(const std::vector<ReportRecord>& reports) {
  std::string text;
  for (const std::string& column : columns_) text += (text.empty() ? "" : ",") + cell(Json(column));
  text += "\n";
  for (const ReportRecord& report : reports) text += row(result_of(report));
  std::string path = folder_ + "/progress.csv";
  replace_file(path, text);
  table_ = open_to_append(path);
}

void ResultFiles::rewrite(const std::vector<ReportRecord>& reports) {
  columns_ = kFirstColumns;
  std::string text;
  for (const ReportRecord& report : reports) {
    Json result = result_of(report);
    learn_columns(result);
    text += to_text(result) + "\n";
  }
  std::string path = folder_ + "/result.json";
  replace_file(path, text);
  lines_ = open_to_append(path);
  rewrite_table(reports);
}

void ResultFiles::append(const std::vector<ReportRecord>& reports) {
  Json result = result_of(reports.back());
  std::string line = to_text(result) + "\n";
  write_all(lines_.get(), line.data(), line.size(), folder_ + "/result.json");
  if (learn_columns(result)) return rewrite_table(reports);
  line = row(result);
  write_all(table_.get(), line.data(), line.size(), folder_ + "/progress.csv");
}

}  // namespace manta::train
