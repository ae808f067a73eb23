#pragma once

#include <functional>

namespace manta::data {

/// While a StopCheck lives, code that this thread runs, at any depth, can ask whether its result is
/// still wanted. Work without a bounded duration, such as a query, asks now and then. Code that
/// starts threads for such work must hand `current` on to them.
class StopCheck {
 public:
  explicit StopCheck(std::function<bool()> stopping);
  ~StopCheck();
  StopCheck(const StopCheck&) = delete;
  StopCheck& operator=(const StopCheck&) = delete;

  /// Whether the result of this thread's work is no longer wanted; false if there is no check.
  static bool stopping();
  /// This thread's check; empty if there is none. It is valid for as long as the StopCheck lives.
  static std::function<bool()> current();

 private:
  const std::function<bool()> stopping_;
  const StopCheck* const before_;
};

}  // namespace manta::data
