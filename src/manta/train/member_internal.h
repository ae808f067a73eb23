#pragma once

#include <cstdint>
#include <string>

#include "manta/base/names_internal.h"
#include "manta/train/driver_entry_internal.h"
#include "manta/train/loop_result_internal.h"
#include "manta/train/plan_bundle_internal.h"

namespace manta::train {

/// How a process finds its group, and proves that it belongs to it.
struct GroupEntry {
  DriverEntry driver;
  int32_t attempt = 0;
  int64_t timeout_ms = 0;  ///< RunConfig::collective_timeout
  template <class Archive>
  void serialize(Archive& archive) {
    archive(driver, attempt, timeout_ms);
  }
};

/// A worker of a group: connects to the driver, gets its orders, runs the training loop, and
/// returns its result. Errors of the loop are reported to the driver, not thrown.
LoopResult train_as_member(const GroupEntry& entry, int rank);
/// A data reader, as Member::read.
void read_as_member(const GroupEntry& entry, const PlanBundle& plans);

/// A process of a training group: an actor with one call, which lasts as long as the loop; or with
/// several calls, one for each run of a Trainer that was started.
class Member {
 public:
  LoopResult train(const GroupEntry& entry, int rank);
  /// Whether the process lives.
  bool is_there() const { return true; }
  /// A data reader: reads these data sets for the workers of its node. On the driver's node the
  /// plans come in its first message instead.
  void read(const GroupEntry& entry, const PlanBundle& plans);
};

}  // namespace manta::train
