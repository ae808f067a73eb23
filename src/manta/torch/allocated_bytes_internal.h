#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>

// For tests of a thread's memory:
//
//   auto bytes = std::make_shared<AllocatedBytes>();
//   c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);

namespace manta {

/// The bytes that this thread's tensors take, and the most that they took at any time.
struct AllocatedBytes final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    now += size;
    peak = std::max(peak, now);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t now = 0;
  int64_t peak = 0;
};

}  // namespace manta
