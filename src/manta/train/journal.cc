#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <new>
#include <string_view>

#include "manta/base/error_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/journal_internal.h"
#include "manta/train/manifest_internal.h"

namespace manta::train {
namespace {

constexpr size_t kPiece = 1 << 18;
constexpr size_t kShownBytes = 80;
// The bytes that reports leave free for other events.
constexpr size_t kBytesLeft = 2 * kLongestEvent;
constexpr size_t kValuesLeft = 100'000;
// The bytes of an event besides a report's metrics and positions.
constexpr size_t kRestOfEvent = 4096;
constexpr size_t kRestOfValues = 100;
constexpr const char* kAdvice = "report smaller metrics";
constexpr JsonLimits kJournalLimits{.bytes = kLongestEvent};

// Checks the fields that History uses.
JournalEvent parse(std::string_view line, const std::string& what) {
  Json json = parse_json(line, what, kJournalLimits);
  JsonFields fields(json, what);
  JournalEvent event;
  event.time = fields.number("time", -kMostSeconds, kMostSeconds);
  event.attempt = static_cast<int>(fields.integer("attempt", 0, kMostAttempts));
  event.event = fields.text("event");
  JsonFields details = fields.object("details");
  if (event.event == kAttemptStarted) {
    details.integer("next_report", 0, kMostReports);
  } else if (event.event == kReport) {
    int64_t index = details.integer("index", 0, kMostReports);
    details.object_or_null("metrics");
    const Json& checkpoint = details.any("checkpoint");
    if (!checkpoint.is_null() && checkpoint != checkpoint_name(index))
      details.fail("checkpoint", str("null or \"", checkpoint_name(index), "\""));
  } else if (event.event == kRunEnded) {
    details.text("outcome");
  } else if (event.event == kDecided) {
    details.text("decision");
  } else if (event.event == kAttemptFailed) {
    if (details.has("rank")) details.integer("rank", kDriver, kMostWorkers);
    for (const char* text : {"kind", "message"})
      if (details.has(text)) details.text(text);
    if (details.has("restart")) details.boolean("restart");
  }
  event.details = std::move(json["details"]);
  return event;
}

struct Scanned {
  std::vector<JournalEvent> events;
  size_t bytes = 0;   // bytes of the file that the events take
  size_t values = 0;  // of all of them
};

Scanned scan_lines(int fd, const std::string& path, size_t most_values) {
  size_t size = check_regular(fd, path);
  if (size > kLargestJournal)
    throw Error(ErrorKind::kCorrupt,
                str("'", path, "' has ", size, " bytes; at most ", kLargestJournal, " are read"));
  Scanned found;
  auto& [events, used, values] = found;
  std::string text;  // from the beginning of a line
  size_t searched = 0;
  auto buffer = std::make_unique<char[]>(kPiece);
  for (off_t at = 0;;) {
    ssize_t got = ::pread(fd, buffer.get(), kPiece, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_errno(str("reading '", path, "'"));
    if (got == 0) return found;
    at += got;
    text.append(buffer.get(), static_cast<size_t>(got));
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', searched)) != std::string::npos; searched = begin) {
      std::string what = str("line ", events.size() + 1, " of '", path, "'");
      try {
        events.push_back(parse(std::string_view(text).substr(begin, end - begin), what));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kCorrupt) throw;
        // The last line may be torn, and may end anywhere.
        if (used + end + 1 - begin >= size) return found;
        throw Error(ErrorKind::kCorrupt,
                    str(error.what(), "; it begins with '",
                        text.substr(begin, std::min(end - begin, kShownBytes)), "'"));
      }
      values += count_values(events.back().details);
      if (values > most_values)
        throw Error(ErrorKind::kCorrupt,
                    str("'", path, "' has more than ", most_values, " values up to line ",
                        events.size(), "; more are not read"));
      used += end + 1 - begin;
      begin = end + 1;
    }
    text.erase(0, begin);
    searched = text.size();
    if (text.size() > kLongestEvent)
      throw Error(ErrorKind::kCorrupt, str("line ", events.size() + 1, " of '", path,
                                           "' has more than ", kLongestEvent, " bytes"));
  }
}

Scanned scan(int fd, const std::string& path, size_t most_values = kMostValues) try {
  return scan_lines(fd, path, most_values);
} catch (const std::bad_alloc&) {
  throw Error(ErrorKind::kResources, str("no memory for the events of '", path, "'"));
}

// A run writes only numbers here.
void add_rows(const Json& positions, std::map<std::string, int64_t>& rows) {
  for (const auto& [name, position] : positions.items()) {
    if (!position.is_object()) continue;
    auto found = position.find(kRowsOfEpoch);
    if (found != position.end() && found->is_number_integer()) rows[name] = *found;
  }
}

// The times come from a clock that may be set, or from a made-up file.
double add_seconds(double sum, double from, double to) {
  return std::min(sum + std::max(0.0, to - from), kMostSeconds);
}

Error failure_in(const Json& details) {
  ErrorKind kind = ErrorKind::kUserCode;
  std::string name = details.value("kind", "");
  for (int i = 0; i <= static_cast<int>(ErrorKind::kCancelled); ++i)
    if (name == kind_name(static_cast<ErrorKind>(i))) kind = static_cast<ErrorKind>(i);
  return Error(kind, str(participant(details.value("rank", kDriver)),
                         " failed: ", details.value("message", "its reason is not known")));
}

}  // namespace

double seconds_since_epoch() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Journal::Journal(std::string path) : path_(std::move(path)) {
  std::filesystem::path file = path_;
  fd_ = open_file(file.parent_path(), file.filename(), O_RDWR | O_APPEND | O_CREAT);
  check_single_name(fd_.get(), path_);
  Scanned found = scan(fd_.get(), path_);
  events_ = std::move(found.events);
  values_ = found.values;
  if (::ftruncate(fd_.get(), static_cast<off_t>(found.bytes)) != 0)
    throw_file_errno(str("cutting the last line of '", path_, "'"));
}

void check_report(int64_t index, const Json& metrics, const Json& positions) {
  JsonLimits limits = kJournalLimits;
  limits.bytes -= kRestOfEvent;
  limits.depth -= 1;
  limits.values -= kRestOfValues;
  readable_text({{"metrics", metrics}, {"positions", positions}},
                str("what report ", index, " keeps of its metrics and of the places in the data"),
                kAdvice, limits);
}

void Journal::append(const JournalEvent& event) {
  bool is_report = event.event == kReport;
  std::string line =
      readable_text({{"time", event.time},
                     {"attempt", event.attempt},
                     {"event", event.event},
                     {"details", event.details}},
                    str("the event '", event.event, "'", is_report ? ", with its metrics," : ""),
                    kAdvice, kJournalLimits);
  if (torn_) {
    throw Error(ErrorKind::kIo,
                str("'", path_, "' ends in the middle of a line, which could not be removed: ",
                    "nothing can be added"));
  }
  struct stat before {};
  if (::fstat(fd_.get(), &before) != 0) throw_file_errno(str("looking at '", path_, "'"));
  size_t bytes = static_cast<size_t>(before.st_size) + line.size();
  size_t values = values_ + count_values(event.details);
  if (bytes > kLargestJournal - (is_report ? kBytesLeft : 0) ||
      values > kMostValues - (is_report ? kValuesLeft : 0))
    throw Error(
        ErrorKind::kInvalidArgument,
        str("the event '", event.event, "' does not fit into '", path_, "': with it there ",
            "would be ", bytes, " bytes and ", values, " values, and at most ", kLargestJournal,
            " and ", kMostValues, " are read again; report less often, or smaller metrics"));
  try {
    write_all(fd_.get(), line.data(), line.size(), path_);
  } catch (const Error&) {
    // Nothing may be appended after a torn line.
    torn_ = ::ftruncate(fd_.get(), before.st_size) != 0;
    throw;
  }
  values_ = values;
}

void Journal::sync() { sync_to_disk(fd_.get(), path_); }

std::vector<JournalEvent> read_journal(const std::string& path, size_t most_values) {
  std::filesystem::path file = path;
  UniqueFd fd = open_file(file.parent_path(), file.filename(), O_RDONLY);
  return scan(fd.get(), path, most_values).events;
}

// Between attempts, and until their resources are free, there are no workers. After a driver was
// killed, events go on with a new attempt: the time until then does not count.
void History::count_time(const JournalEvent& event) {
  if (event.event == kAttemptStarted) {
    seen_with_workers_.reset();
  } else if (event.event == kGroupStarted) {
    group_began_ = event.time;
    seen_with_workers_ = event.time;
  } else if (seen_with_workers_) {
    with_workers_ = add_seconds(with_workers_, *seen_with_workers_, event.time);
    seen_with_workers_ = event.time;
    if (event.event == kAttemptFailed || event.event == kRunEnded) seen_with_workers_.reset();
  }
}

void History::apply(const JournalEvent& event) {
  last_attempt_ = std::max(last_attempt_, event.attempt);
  const Json& details = event.details;
  count_time(event);
  if (event.event == kAttemptStarted) {
    int64_t next = details.value("next_report", int64_t{0});
    while (!reports_.empty() && reports_.back().index >= next) reports_.pop_back();
    outcome_.clear();
    is_complete_ = false;
    failure_.reset();
    group_began_ = event.time;
    trained_before_ = reports_.empty() ? 0 : reports_.back().time_total_s;
  } else if (event.event == kReport) {
    ReportRecord report;
    report.index = details.value("index", int64_t{0});
    report.attempt = event.attempt;
    report.time = event.time;
    report.time_total_s = add_seconds(trained_before_, group_began_, event.time);
    report.metrics = details.value("metrics", Json());
    auto checkpoint = details.find("checkpoint");
    if (checkpoint != details.end() && checkpoint->is_string()) report.checkpoint = *checkpoint;
    while (!reports_.empty() && reports_.back().index >= report.index) reports_.pop_back();
    reports_.push_back(std::move(report));
    add_rows(details.value("positions", Json()), rows_);
  } else if (event.event == kAttemptFailed) {
    ++failures_;
    if (!details.value("restart", true)) failure_ = failure_in(details);
  } else if (event.event == kRunEnded) {
    if (!is_complete_) outcome_ = details.value("outcome", "");
  } else if (event.event == kDecided && details.value("decision", "") == "stop") {
    // Even if the driver died before the end.
    outcome_ = outcome_name(RunOutcome::kStopped);
    is_complete_ = true;
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
