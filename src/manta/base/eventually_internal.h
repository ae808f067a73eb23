#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace manta {

/// For tests: waits until the condition holds, far longer than that ever takes. Whether it does.
inline bool eventually(const std::function<bool()>& condition) {
  for (auto end = std::chrono::steady_clock::now() + std::chrono::seconds(50);
       !condition() && std::chrono::steady_clock::now() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return condition();
}

}  // namespace manta
