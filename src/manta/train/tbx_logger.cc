#include <unistd.h>

#include <atomic>
#include <climits>
#include <filesystem>
#include <optional>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/train/appended_file_internal.h"
#include "manta/train/event_file_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/loggers.h"
#include "manta/train/own_path_internal.h"

namespace manta {
namespace train {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// TensorBoard reads the files of a folder in the order of their names.
std::string event_file_name() {
  static std::atomic<int> count{0};
  char host[HOST_NAME_MAX + 1] = "host";
  ::gethostname(host, HOST_NAME_MAX);
  return str("events.out.tfevents.", static_cast<int64_t>(seconds_now()), ".", host, ".",
             ::getpid(), ".", count++);
}

class TbxSink final : public TrackerSink {
 public:
  // Empty: a folder in the run folder.
  TbxSink(const RunInfo& run, const std::string& logdir)
      : own_(logdir, lock_folder_of_run),
        folder_(logdir.empty() ? run.path : std::filesystem::absolute(logdir).string()),
        inner_(logdir.empty() ? "tensorboard/" : "") {}

  void take(const std::vector<TrackerEvent>& events) override {
    own_.hold();
    auto before = last_step_;
    if (!file_) file_.emplace(folder_, inner_ + event_file_name());
    std::string records;
    auto add = [&](const std::string& event) { records += event_record(event); };
    if (!begun_) add(version_event(seconds_now()));
    for (const TrackerEvent& event : events)
      std::visit([&](const auto& each) { describe(each, add); }, event.what);
    try {
      file_->append(records);
      begun_ = true;
      if (has_end(events)) own_.release();
    } catch (...) {
      last_step_ = before;
      throw;
    }
  }

 private:
  template <class Add>
  void describe(const TrackerEvent::RunStart& start, const Add& add) {
    int64_t next = start.reports.empty() ? 0 : start.reports.back().index + 1;
    add(restart_event(start.time, next));
    last_step_ = next - 1;
    auto parameters = flat_config(start.train_loop_config);
    parameters["num_workers"] = start.scaling_config.num_workers;
    add(hyper_parameters_event(start.time, start.name, parameters));
    std::string json = to_text(start.train_loop_config, 2), code;
    for (size_t at = 0; at < json.size();) {  // Markdown: indented lines are code
      size_t end = std::min(json.find('\n', at), json.size());
      code += "    " + json.substr(at, end - at) + "\n";
      at = end + 1;
    }
    add(text_event(start.time, next, "train_loop_config", code));
  }

  template <class Add>
  void describe(const ReportRecord& report, const Add& add) {
    if (report.index <= last_step_) add(restart_event(report.time, report.index));
    last_step_ = report.index;
    for_each_metric(report.metrics, [&](const std::string& name, const Json& metric) {
      if (auto histogram = histogram_of(metric)) {
        add(histogram_event(report.time, report.index, name, *histogram));
      } else if (auto text = text_of(metric)) {
        add(text_event(report.time, report.index, name, *text));
      } else if (auto number = number_of(metric)) {
        add(scalar_event(report.time, report.index, name, *number));
      }
    });
    add(scalar_event(report.time, report.index, "time_total_s", report.time_total_s));
  }

  template <class Add>
  void describe(const TrackerEvent::RunEnd& end, const Add& add) {
    bool succeeded = end.outcome == RunOutcome::kFinished || end.outcome == RunOutcome::kStopped;
    add(hyper_parameters_end_event(end.time, succeeded));
  }

  template <class Other, class Add>
  void describe(const Other&, const Add&) {}

  OwnPath own_;
  const std::string folder_, inner_;
  std::optional<AppendedFile> file_;
  bool begun_ = false;
  int64_t last_step_ = -1;
};

}  // namespace
}  // namespace train

TBXLoggerCallback::TBXLoggerCallback(TBXLoggerOptions options)
    : Tracker("TBXLoggerCallback", options.tracker), logdir_(std::move(options.logdir)) {}

std::unique_ptr<TrackerSink> TBXLoggerCallback::make_sink(const RunInfo& run) {
  return std::make_unique<train::TbxSink>(run, logdir_);
}

}  // namespace manta
