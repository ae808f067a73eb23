#pragma once

#include <string>

#include "manta/base/names_internal.h"
#include "manta/core/value.h"

namespace manta::train {

/// The result of a worker's loop, on its way to the driver: a Value without shared memory.
class LoopResult {
 public:
  LoopResult() = default;
  /// Throws Error(kInvalidArgument) if it holds references to objects: these would end with the
  /// worker's call.
  explicit LoopResult(const Value& value);
  Value value() const;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(body_, memory_);
  }

 private:
  std::string body_;
  std::string memory_;  // large buffers
};

}  // namespace manta::train
