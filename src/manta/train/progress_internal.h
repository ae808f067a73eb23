#pragma once

#include <map>
#include <optional>
#include <string>

#include "manta/base/deadline.h"
#include "manta/base/json.h"
#include "manta/base/names_internal.h"
#include "manta/base/status_line_internal.h"
#include "manta/train/messages_internal.h"

namespace manta::train {

/// What the user sees of a run, on standard error: a line for each report, and the progress in
/// between. On a terminal the progress is a last line that is kept current, otherwise a line now
/// and then.
class Progress {
 public:
  /// The name stands before each line while there are several runs. `verbose`:
  /// RunConfig::verbose. `terminal`: whether standard error is one.
  Progress(std::string run_name, int verbose, bool terminal, int num_workers);
  ~Progress();

  void set_workers(int num_workers) { num_workers_ = num_workers; }
  /// About how many rows an epoch of that data set has, until the number is known.
  void expect(const std::string& dataset, int64_t rows) { expected_[dataset] = rows; }
  void update(const SendProgress& progress);
  void report(int64_t index, const Json& metrics, const std::string& checkpoint);
  /// Call it when an epoch begins or ends; shown from verbose 2 on.
  void epoch(bool begins, const std::string& dataset, int64_t epoch, int64_t rows);
  /// Writes a line that stays.
  void say(const std::string& text);
  /// Writes what standard error has not taken yet. Nothing here ever waits for standard error; call
  /// this now and then.
  void write();
  bool has_more_to_write() const { return !pending_.empty(); }

  /// The current line, without colours or carriage returns.
  std::string line() const;

 private:
  void show();

  std::string label() const;

  const std::string run_name_;
  const int verbose_;
  const bool terminal_;
  StatusLine status_;
  int num_workers_;
  std::map<std::string, int64_t> expected_;
  SendProgress last_;
  double rows_per_second_ = 0;  // of all workers, smoothed
  double wait_share_ = 0;
  Clock::time_point last_time_ = Clock::now();
  Clock::time_point last_shown_ = Clock::now();
  std::string metrics_;
  std::string pending_;
};

/// "loss 0.123, epoch 2": numbers and short strings, in a few words.
std::string summarize(const Json& metrics, size_t max_length = 100);
/// "12.3 k", "1.25 M"; "?" if it is not a count.
std::string short_count(double count);
/// "1.2 s", "3 min 20 s", "2 h 5 min", "3 d 2 h"; "?" if it is not a time.
std::string short_time(double seconds);
/// The time until `total` rows are done; nothing if the numbers do not show it.
std::optional<double> seconds_left(int64_t rows, int64_t total, double rows_per_second);

}  // namespace manta::train
