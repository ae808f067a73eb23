#pragma once

#include <memory>

#include "manta/train/config.h"

namespace manta {

namespace train {
struct Training;
}

/// A run that goes on while the program does something else, such as watching others. Any thread
/// may use it.
class RunHandle {
 public:
  /// What Trainer::start calls. Throws what `training` cannot begin with.
  explicit RunHandle(train::Training training);
  RunHandle(RunHandle&&) noexcept;
  RunHandle& operator=(RunHandle&&) noexcept;
  ~RunHandle();  ///< Stops the run, if it has not ended, and waits for its end.

  /// Asks the run to end, as Ctrl-C does: `result` throws Error(kCancelled), and what was committed
  /// stays, for restore. Returns at once. Nothing if it has ended.
  void stop();
  bool done() const;
  /// Waits for the end. What Trainer::fit returns or throws. Throws Error(kInvalidArgument) in a
  /// callback of the run, which would wait for itself.
  Result result() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace manta
