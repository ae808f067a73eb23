#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/json.h"
#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"
#include "manta/train/callback.h"

namespace manta::train {

/// A field next to a data set's position in a report: the rows that all workers took of the last
/// epoch that they read to its end, if there is one.
inline constexpr const char* kRowsOfEpoch = "rows_of_epoch";

/// A report was committed: index, metrics, positions, checkpoint (the folder's name or null). The
/// other names of events are those of the controller's notes.
inline constexpr const char* kReport = "report";

struct JournalEvent {
  double time = 0;  ///< Seconds since 1970.
  int attempt = 0;
  std::string event;
  Json details;
};

/// The time of an event that happens now.
double seconds_since_epoch();

/// A longer line is neither written nor read,
inline constexpr size_t kLongestEvent = size_t{16} << 20;
/// nor is a longer journal,
inline constexpr size_t kLargestJournal = size_t{4} << 30;
/// nor a journal whose events have more JSON values: they are held in memory, with 100 bytes or
/// more for each.
inline constexpr size_t kMostValues = 32'000'000;

/// Throws Error(kInvalidArgument), which names report and metrics, unless the journal can store
/// them.
void check_report(int64_t index, const Json& metrics, const Json& positions);

/// Appends events to <run>/journal.jsonl, one JSON object per line. Each is one write(2), so a
/// reader, or the driver that follows a killed one, sees whole lines, except possibly for the last.
class Journal {
 public:
  /// Makes the journal if it is not there, and cuts off a torn last line. Throws Error(kIo), or
  /// Error(kCorrupt) as read_journal, and also if the file has another name (a hard link): appended
  /// lines would be in that file, too.
  explicit Journal(std::string path);
  /// The events that were there when it was opened; empty when called again.
  std::vector<JournalEvent> take_events() { return std::exchange(events_, {}); }
  /// Throws Error(kIo), e.g. when the disk is full; Error(kInvalidArgument) if the event, or the
  /// journal with it, would exceed the limits of reading. The event is not in the journal then. The
  /// last bytes and values are reserved for events other than reports, so that a run with a full
  /// journal can still be ended.
  void append(const JournalEvent& event);
  /// Waits until the disk has everything that was appended. Throws Error(kIo).
  void sync();

 private:
  std::string path_;
  UniqueFd fd_;
  std::vector<JournalEvent> events_;
  size_t values_ = 0;  // of all events in the file
  bool torn_ = false;  // the last line is torn, and cannot be removed
};

/// All events, their fields checked: a report names the checkpoint of its own index, or none. A
/// torn last line is left out: its event never happened. Throws Error(kNotFound), or
/// Error(kCorrupt) naming the line if any other line is not an event, or as open_file;
/// Error(kResources) if there is no memory for it.
std::vector<JournalEvent> read_journal(const std::string& path, size_t most_values = kMostValues);

/// The state of a run that the events of a journal add up to.
class History {
 public:
  /// Takes constant time, except for an attempt that discards reports of earlier attempts.
  void apply(const JournalEvent& event);

  /// In order, each index once, from the attempt whose report counts.
  const std::vector<ReportRecord>& reports() const { return reports_; }
  /// The indexes of reports that have a checkpoint. (Retention may have removed it since.)
  std::vector<int64_t> checkpoints() const;
  /// Result::rows.
  const std::map<std::string, int64_t>& rows() const { return rows_; }
  int last_attempt() const { return last_attempt_; }  ///< -1: none has started.
  int failures() const { return failures_; }          ///< Attempts that failed.
  /// Why the last attempt failed, if it did and no other followed: which rank, and its error.
  const std::optional<Error>& failure() const { return failure_; }
  /// How long there was a group of workers, in all attempts, according to the events: time that a
  /// killed driver had not noted is missing. At most kMostSeconds.
  double seconds_with_workers() const { return with_workers_; }
  const std::string& outcome() const {
    return outcome_;
  }  ///< Empty: not ended, or the driver died.

 private:
  void count_time(const JournalEvent& event);

  std::vector<ReportRecord> reports_;
  std::map<std::string, int64_t> rows_;
  int last_attempt_ = -1;
  int failures_ = 0;
  std::string outcome_;
  bool is_complete_ = false;  // a callback has decided so
  std::optional<Error> failure_;
  double group_began_ = 0;     // of this attempt; the attempt's beginning until its group has
                               // started
  double trained_before_ = 0;  // up to the report from which this attempt goes on
  double with_workers_ = 0;
  std::optional<double> seen_with_workers_;  // the last event while the group was there
};

History history(const std::vector<JournalEvent>& events);

}  // namespace manta::train
