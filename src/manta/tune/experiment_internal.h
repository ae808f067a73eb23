#pragma once

#include <memory>

#include "manta/tune/controller_internal.h"
#include "manta/tune/experiment_folder_internal.h"
#include "manta/tune/progress_internal.h"
#include "manta/tune/searcher.h"
#include "manta/tune/trials_internal.h"

namespace manta::tune {

/// Does what the controller decides, and tells it what comes of it. On the thread of Tuner::fit.
class Experiment {
 public:
  struct Parts {
    ExperimentFolder& folder;
    Controller& controller;
    Searcher& searcher;
    const Space& space;
    Trials& trials;
    EventQueue& events;
    Progress& progress;
  };
  explicit Experiment(Parts parts) : parts_(parts) {}

  /// Until the end; false if it was interrupted. Throws Error(kIo) if the journal cannot be
  /// written.
  bool run();

 private:
  void perform(const std::vector<Action>& actions);
  void perform(const Suggest& action);
  void perform(const StartTrial& action);
  void perform(const Judge& action);
  void perform(const InterruptTrial& action);
  void perform(const Note& action);
  void perform(const End& action);
  Deadline next_deadline() const;

  Parts parts_;
  bool interrupted_ = false;
};

}  // namespace manta::tune
