#pragma once

#include <memory>

#include "manta/train/session_internal.h"

namespace manta::xgboost {

/// The library's connections between the workers of a run, for as long as it lives. They belong to
/// the thread that made it: everything that the workers do together must happen there.
///
/// Rank 0 runs the library's tracker, which tells the workers about each other; the workers get its
/// address through the run's key-value store. It listens on the loopback interface.
///
/// A worker that is killed makes the calls of the others fail at once; one that is stopped, after
/// the run's collective_timeout. After such an error no more messages go to the others: the driver
/// ends the whole group.
class Communicator {
 public:
  /// Returns when all workers are connected. With one worker there is nothing to connect.
  explicit Communicator(train::Session& session);
  ~Communicator();
  Communicator(const Communicator&) = delete;

  /// Every worker must call it when everything is done without an error.
  void finish();

 private:
  void* tracker_ = nullptr;
  bool connected_ = false;
  int64_t timeout_seconds_;
};

}  // namespace manta::xgboost
