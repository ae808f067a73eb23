#include <filesystem>
#include <optional>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/train/appended_file_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/loggers.h"
#include "manta/train/own_path_internal.h"
#include "manta/train/result_files_internal.h"

namespace manta {
namespace train {
namespace {

Json line_of(const TrackerEvent::RunStart& start) {
  return {{"event", "run_start"},
          {"time", start.time},
          {"run", start.name},
          {"path", start.path},
          {"train_loop_config", start.train_loop_config},
          {"num_workers", start.scaling_config.num_workers},
          {"reports", start.reports.size()}};
}

Json epoch_line(const char* event, const EpochRecord& epoch) {
  return {{"event", event},       {"time", epoch.time}, {"dataset", epoch.dataset},
          {"epoch", epoch.epoch}, {"rows", epoch.rows}, {"attempt", epoch.attempt}};
}
Json line_of(const TrackerEvent::EpochStart& start) {
  return epoch_line("epoch_start", start.epoch);
}
Json line_of(const TrackerEvent::EpochEnd& end) { return epoch_line("epoch_end", end.epoch); }

Json line_of(const Checkpoint& checkpoint) {
  return {{"event", "checkpoint"},
          {"time", checkpoint.manifest().at("time")},
          {"path", checkpoint.path()},
          {"files", checkpoint.files()}};
}

Json line_of(const ReportRecord& report) {
  Json line = {{"event", "report"},
               {"time", report.time},
               {"index", report.index},
               {"attempt", report.attempt},
               {"time_total_s", report.time_total_s},
               {"metrics", report.metrics}};
  if (!report.checkpoint.empty()) line["checkpoint"] = report.checkpoint;
  return line;
}

Json line_of(const RunFailure& failure) {
  return {{"event", "failure"},
          {"who", failure.who},
          {"message", failure.message},
          {"will_restart", failure.will_restart}};
}

Json line_of(const TrackerEvent::RunEnd& end) {
  return {{"event", "run_end"}, {"time", end.time}, {"outcome", outcome_name(end.outcome)}};
}

class JsonSink final : public TrackerSink {
 public:
  JsonSink(const RunInfo& run, const std::string& path)
      : own_(path, lock_file_of_run),
        file_(file_at(run, path).parent_path(), file_at(run, path).filename()) {}
  void take(const std::vector<TrackerEvent>& events) override {
    own_.hold();
    std::string lines;
    for (const TrackerEvent& event : events)
      lines +=
          std::visit([](const auto& each) { return to_text(line_of(each)) + "\n"; }, event.what);
    file_.append(lines);
    if (has_end(events)) own_.release();
  }

 private:
  static std::filesystem::path file_at(const RunInfo& run, const std::string& path) {
    return std::filesystem::absolute(path.empty() ? run.path + "/events.jsonl" : path);
  }

  OwnPath own_;
  AppendedFile file_;
};

class CsvSink final : public TrackerSink {
 public:
  CsvSink(const RunInfo& run, const std::string& path)
      : own_(path, lock_file_of_run),
        folder_(file_at(run, path).parent_path()),
        table_(folder_, "", "/" + file_at(run, path).filename().string()) {}

  void take(const std::vector<TrackerEvent>& events) override {
    own_.hold();
    // The same events may come again: indexes show which are in the table already.
    for (const TrackerEvent& event : events) {
      if (auto* start = std::get_if<TrackerEvent::RunStart>(&event.what)) {
        reports_ = start->reports;
        make_folders(folder_);
        table_.rewrite(reports_);
        whole_ = true;
      } else if (auto* report = std::get_if<ReportRecord>(&event.what)) {
        add(*report);
      } else if (whole_ && std::holds_alternative<TrackerEvent::RunEnd>(event.what)) {
        table_.finish(reports_);
      }
    }
    if (has_end(events)) own_.release();
  }

 private:
  static std::filesystem::path file_at(const RunInfo& run, const std::string& path) {
    return std::filesystem::absolute(path.empty() ? run.path + "/reports.csv" : path);
  }

  void add(const ReportRecord& report) {
    bool follows = reports_.empty() || reports_.back().index < report.index;
    while (!reports_.empty() && reports_.back().index >= report.index) reports_.pop_back();
    reports_.push_back(report);
    if (follows && whole_) {
      whole_ = false;  // until it is
      table_.append(reports_);
    } else {
      table_.rewrite(reports_);
    }
    whole_ = true;
  }

  OwnPath own_;
  std::string folder_;
  std::vector<ReportRecord> reports_;
  ResultFiles table_;
  bool whole_ = false;  // the content of the file
};

}  // namespace
}  // namespace train

JsonLoggerCallback::JsonLoggerCallback(FileLoggerOptions options)
    : Tracker("JsonLoggerCallback", options.tracker), path_(std::move(options.path)) {}

std::unique_ptr<TrackerSink> JsonLoggerCallback::make_sink(const RunInfo& run) {
  return std::make_unique<train::JsonSink>(run, path_);
}

CSVLoggerCallback::CSVLoggerCallback(FileLoggerOptions options)
    : Tracker("CSVLoggerCallback", options.tracker), path_(std::move(options.path)) {}

std::unique_ptr<TrackerSink> CSVLoggerCallback::make_sink(const RunInfo& run) {
  return std::make_unique<train::CsvSink>(run, path_);
}

}  // namespace manta
