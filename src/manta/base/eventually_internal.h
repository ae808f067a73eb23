#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace manta {

/// For tests: waits until the condition holds, far longer than that ever takes. Whether it did, be
/// it for a moment only. A shorter `within` is for what the documents promise a time for, and
/// generous even so.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::seconds within = std::chrono::seconds(50)) {
  auto end = std::chrono::steady_clock::now() + within;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace manta
