#pragma once

#include <chrono>

/// Calls of `batch`, which does `size` of something, per second: warmed up for 1 s, measured for
/// 3 s, as `per_second` of the scripts that measure Ray.
template <class Batch>
double per_second(int size, Batch batch) {
  using Clock = std::chrono::steady_clock;
  for (auto until = Clock::now() + std::chrono::seconds(1); Clock::now() < until;) batch();
  auto begin = Clock::now();
  double count = 0;
  while (Clock::now() - begin < std::chrono::seconds(3)) {
    batch();
    count += size;
  }
  return count / std::chrono::duration<double>(Clock::now() - begin).count();
}
