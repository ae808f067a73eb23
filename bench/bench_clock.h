#pragma once

#include <time.h>

#include <cstdint>

/// CLOCK_MONOTONIC in seconds: the same in all processes of the machine, whatever their language.
inline double now_s() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Seconds since `start_ns` of the same clock.
inline double since_s(int64_t start_ns) { return now_s() - 1e-9 * static_cast<double>(start_ns); }
