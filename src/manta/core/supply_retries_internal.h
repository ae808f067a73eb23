#pragma once

#include <chrono>
#include <map>
#include <string>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"

namespace manta {

/// The policy for nodes that did not come: when to ask for them again, and what to report. A host
/// that reboots is away for minutes, so it never gives up: ClusterOptions::grow_wait says how long
/// something waits for a node. Does no I/O.
class SupplyRetries {
 public:
  static constexpr std::chrono::milliseconds kFirstPause{500};
  static constexpr std::chrono::milliseconds kLongestPause{10'000};

  /// The node of that name was asked for, and does not come. The name is empty for new nodes, of
  /// which a source can bring any.
  void failed(const std::string& name, const std::string& why, Clock::time_point now);
  /// A node that was asked for under that name has come.
  void came(const std::string& name) { failing_.erase(name); }

  /// False until the pause after its last failure is over: 0.5 seconds after the first, twice as
  /// long after each further one, up to 10 seconds.
  bool may_ask(const std::string& name, Clock::time_point now) const;
  /// The number of failures in a row.
  int failures(const std::string& name) const;
  /// Whether this failure is worth a line of the log: the 1st, 2nd, 4th, 8th, ... in a row are.
  bool is_worth_telling(const std::string& name) const;
  /// "'n2' was asked for 3 times and did not come (the last time: ...); it is asked for again, at
  /// least every 10 s". Empty if no node fails.
  std::string describe() const;

 private:
  struct Failing {
    int times = 0;
    std::string why;
    Clock::time_point not_before;
  };
  std::map<std::string, Failing> failing_;
};

}  // namespace manta
