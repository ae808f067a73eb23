#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "manta/base/error.h"
#include "manta/train/controller_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/journal_internal.h"

namespace manta::train {
namespace {

bool parse(const std::string& line, JournalEvent& event) {
  Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return false;
  try {
    event = {json.at("time"), json.at("attempt"), json.at("event"), json.at("details")};
    return event.details.is_object();
  } catch (const Json::exception&) {
    return false;
  }
}

// The events and how many bytes of the file they take.
std::pair<std::vector<JournalEvent>, size_t> scan(const std::string& path) {
  std::string text = read_text(path);
  std::vector<JournalEvent> events;
  size_t at = 0;
  for (size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    JournalEvent event;
    if (parse(text.substr(at, end - at), event)) {
      events.push_back(std::move(event));
    } else if (end + 1 == text.size()) {
      break;
    } else {
      throw Error(ErrorKind::kCorrupt,
                  str("line ", events.size() + 1, " of '", path, "' is not an event: '",
                      text.substr(at, std::min<size_t>(end - at, 80)), "'"));
    }
  }
  return {std::move(events), at};
}

}  // namespace

double seconds_since_epoch() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Journal::Journal(std::string path) : path_(std::move(path)) {
  fd_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!fd_) throw_errno(str("opening '", path_, "'"));
  if (::ftruncate(fd_.get(), static_cast<off_t>(scan(path_).second)) != 0)
    throw_errno(str("cutting the last line of '", path_, "'"));
}

void Journal::append(const JournalEvent& event) {
  std::string line = to_text({{"time", event.time},
                              {"attempt", event.attempt},
                              {"event", event.event},
                              {"details", event.details}}) +
                     "\n";
  struct stat before {};
  if (::fstat(fd_.get(), &before) != 0) throw_errno(str("looking at '", path_, "'"));
  try {
    write_all(fd_.get(), line.data(), line.size(), path_);
  } catch (const Error&) {
    // Behind a torn line nothing may be appended.
    if (::ftruncate(fd_.get(), before.st_size) != 0) fd_.reset();
    throw;
  }
}

std::vector<JournalEvent> read_journal(const std::string& path) { return scan(path).first; }

void History::apply(const JournalEvent& event) {
  last_attempt_ = std::max(last_attempt_, event.attempt);
  const Json& details = event.details;
  if (event.event == kAttemptStarted) {
    int64_t next = details.value("next_report", int64_t{0});
    while (!reports_.empty() && reports_.back().index >= next) reports_.pop_back();
    outcome_.clear();
    attempt_began_ = event.time;
    trained_before_ = reports_.empty() ? 0 : reports_.back().time_total_s;
  } else if (event.event == kReport) {
    ReportRecord report;
    report.index = details.value("index", int64_t{0});
    report.attempt = event.attempt;
    report.time = event.time;
    report.time_total_s = trained_before_ + std::max(0.0, event.time - attempt_began_);
    report.metrics = details.value("metrics", Json());
    auto checkpoint = details.find("checkpoint");
    if (checkpoint != details.end() && checkpoint->is_string()) report.checkpoint = *checkpoint;
    while (!reports_.empty() && reports_.back().index >= report.index) reports_.pop_back();
    reports_.push_back(std::move(report));
  } else if (event.event == kAttemptFailed) {
    ++failures_;
  } else if (event.event == kRunEnded) {
    outcome_ = details.value("outcome", "");
  }
}

std::vector<int64_t> History::checkpoints() const {
  std::vector<int64_t> indexes;
  for (const ReportRecord& report : reports_)
    if (!report.checkpoint.empty()) indexes.push_back(report.index);
  return indexes;
}

History history(const std::vector<JournalEvent>& events) {
  History result;
  for (const JournalEvent& event : events) result.apply(event);
  return result;
}

}  // namespace manta::train
