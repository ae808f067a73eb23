#pragma once

#include <memory>

#include "manta/train/config.h"

namespace manta {

namespace train {
struct Training;
}

/// A run that continues while the program does something else, such as watching other runs. Any
/// thread may use it.
class RunHandle {
 public:
  /// BaseTrainer::start calls it. Throws if `training` cannot begin.
  explicit RunHandle(train::Training training);
  RunHandle(RunHandle&&) noexcept;
  RunHandle& operator=(RunHandle&&) noexcept;
  ~RunHandle();  ///< Stops the run if it has not ended, as `stop` does, and waits for its end.

  /// Asks the run to end, as Ctrl-C does, and returns at once: a loop that asks
  /// train::should_stop() may take RunConfig::stop_grace to return. `result` then throws
  /// Error(kCancelled); what was committed stays, for restore. A run that has ended and only waits
  /// for its store stops waiting. Does nothing if the run has ended, or if stop was called before.
  void stop();
  bool done() const;
  /// Waits for the end, and returns or throws what BaseTrainer::fit would. Throws
  /// Error(kInvalidArgument) in a callback of this run, which would wait for itself.
  Result result() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace manta
