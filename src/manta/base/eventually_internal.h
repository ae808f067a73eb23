#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace manta {

/// For tests: waits until the condition holds, and returns whether it did, even if only for a
/// moment. The default is far longer than any condition takes. Give a shorter `within` only where
/// the documents promise a time, and be generous even then.
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
