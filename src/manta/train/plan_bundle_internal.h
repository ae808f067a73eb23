#pragma once

#include <arrow/buffer.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/value.h"
#include "manta/data/plan_internal.h"

namespace manta::train {

/// Plans as an argument of a call, for a reader on another node. The shared memory of their
/// functions and rows becomes part of the argument, which core brings to the node. (On the driver's
/// node a message passes the shared memory on.)
struct PlanBundle {
  std::string bytes;
  std::vector<std::shared_ptr<arrow::Buffer>> memory;

  PlanBundle() = default;
  explicit PlanBundle(const std::map<std::string, data::WirePlan>& plans);
  bool empty() const { return bytes.empty(); }
  /// Throws Error(kCorrupt) if it holds no plans.
  std::map<std::string, data::WirePlan> plans() const;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(bytes, memory);
  }

 private:
  std::vector<std::shared_ptr<SharedMemory>> kept_;  // what `memory` points to, in its maker
};

}  // namespace manta::train
