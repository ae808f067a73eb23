#pragma once

#include <functional>

namespace manta::data {

/// While one lives, code that this thread runs can ask whether its result is wanted still, however
/// deep below it is: a source that has no end of its own to wait for, such as a query, asks now and
/// then. Whoever begins threads for such work hands `current` on to them.
class StopCheck {
 public:
  explicit StopCheck(std::function<bool()> stopping);
  ~StopCheck();
  StopCheck(const StopCheck&) = delete;
  StopCheck& operator=(const StopCheck&) = delete;

  /// Whether nobody wants what this thread works on; false if there is no check.
  static bool stopping();
  /// This thread's; empty if there is none. It is valid for as long as the check lives.
  static std::function<bool()> current();

 private:
  const std::function<bool()> stopping_;
  const StopCheck* const before_;
};

}  // namespace manta::data
