#include "manta/train/interrupt_internal.h"

namespace manta::train {
namespace {

volatile sig_atomic_t signals = 0;

void on_signal(int signal) {
  signals = signals + 1;
  if (signals < 2) return;
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  signals = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigaction(SIGINT, &action, &old_int_);
  ::sigaction(SIGTERM, &action, &old_term_);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
}

bool InterruptGuard::interrupted() const { return signals > 0; }

}  // namespace manta::train
