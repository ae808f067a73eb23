#pragma once

#include <csignal>

namespace manta::train {

/// While it lives, Ctrl-C (SIGINT) and SIGTERM are noted instead of ending the program; a second
/// one ends it as usual. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;

  bool interrupted() const;

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

}  // namespace manta::train
