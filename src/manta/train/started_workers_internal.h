#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/actor.h"
#include "manta/train/config.h"
#include "manta/train/member_internal.h"

namespace manta::train {

/// Workers that start before a run and stay after it: those of a Trainer between start() and
/// shutdown(). They run one group at a time.
class StartedWorkers {
 public:
  /// Has all or none of the workers start when their resources are free; returns at once. Their
  /// output goes to `log_folder`.
  StartedWorkers(ScalingConfig scaling, std::string log_folder);

  /// The workers for the next group, by rank. If one has died since the last group, all are started
  /// anew.
  const std::vector<ActorHandle<Member>>& actors();
  /// Call it after a group some of whose processes were killed or have failed: none of the workers
  /// is used again.
  void drop();

  std::string log_of(int rank) const;
  /// Appends what the workers have written since the last call to files of the same names in
  /// `folder`. Warns if it cannot.
  void move_logs(const std::string& folder);

 private:
  void start();
  bool all_there() const;

  const ScalingConfig scaling_;
  const std::string log_folder_;
  std::vector<ActorHandle<Member>> actors_;
  bool used_ = false;              // a group has begun with them
  std::map<int, uint64_t> moved_;  // how many bytes of each log were moved, by rank
};

}  // namespace manta::train
