#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/base/json.h"
#include "manta/base/names_internal.h"
#include "manta/base/status_line_internal.h"
#include "manta/tune/controller_internal.h"

namespace manta::tune {

/// What the user sees of an experiment, on standard error: on a terminal, a table of the trials
/// that run as its last lines; otherwise a line now and then. A line for each trial that fails, and
/// a summary at the end. Of a trial's configuration it shows what is not the same in all of them.
class Progress {
 public:
  /// `verbose` false: shows nothing. `terminal`: whether standard error is one.
  Progress(Objective objective, bool verbose, bool terminal);
  ~Progress();

  /// Call it after every event; shows the table if the last time was long enough ago.
  void update(const std::vector<Trial>& trials);
  void failed(const Trial& trial);
  /// The best trials as a table.
  void summary(const std::vector<Trial>& trials, const std::string& folder);
  /// Writes a line that stays.
  void say(const std::string& text);
  /// Writes what standard error has not taken yet. Nothing here ever waits for standard error.
  void write();
  bool has_more_to_write() const { return !pending_.empty(); }
  /// When `update` wants to be called at the latest.
  Deadline next_update() const;

  /// The lines of the table, without the terminal's width.
  std::vector<std::string> table(const std::vector<Trial>& trials);

 private:
  std::string counts(const std::vector<Trial>& trials) const;
  const Trial* best(const std::vector<Trial>& trials) const;
  /// Learns the configurations that it has not seen yet.
  void learn_configs(const std::vector<Trial>& trials);
  std::string describe(const Trial& trial) const;

  const Objective objective_;
  const bool verbose_, terminal_;
  std::vector<std::unique_ptr<StatusLine>> lines_;
  /// A setting of configurations, by its path such as "params/max_depth": the first trial's value,
  /// and whether another trial's value differs.
  struct Setting {
    Json value;
    bool varies = false;
  };
  std::map<std::string, Setting> settings_;
  size_t learned_ = 0;
  Clock::time_point shown_ = {};
  bool changed_ = false;
  std::string pending_;
};

}  // namespace manta::tune
