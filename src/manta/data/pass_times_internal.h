#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace manta::data {

class Operation;

using PassClock = std::chrono::steady_clock;
inline int64_t nanoseconds_since(PassClock::time_point begin) {
  return std::chrono::nanoseconds(PassClock::now() - begin).count();
}

/// Where the time of a pass goes, for `Dataset::stats`: sums over all threads. Any thread may use
/// it.
class PassTimes {
 public:
  struct Part {
    std::string name;
    const Operation* operation = nullptr;
    std::atomic<int64_t> nanoseconds = 0;
    std::atomic<int64_t> rows = 0;  ///< Rows that came out.
  };

  /// The part of an operation, made by the first call. It lives as long as this object.
  Part& of(const Operation& operation);
  const std::deque<Part>& operations() const { return operations_; }

  std::atomic<int64_t> read = 0;       ///< Waiting for bytes of files.
  std::atomic<int64_t> decode = 0;     ///< Making columns from those bytes.
  std::atomic<int64_t> temporary = 0;  ///< Reading rows of an earlier stage from its file.
  std::atomic<int64_t> wait = 0;       ///< Waiting for rows that are not there yet.

 private:
  std::mutex mutex_;
  std::deque<Part> operations_;
};

/// How long this thread has waited for bytes of files: a counter that only rises.
int64_t& file_nanoseconds();

}  // namespace manta::data
