#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "manta/train/run_mirror_internal.h"
#include "manta/tune/controller_internal.h"
#include "manta/tune/experiment_folder_internal.h"
#include "manta/tune/progress_internal.h"
#include "manta/tune/searcher.h"
#include "manta/tune/trials_internal.h"

namespace manta::tune {

/// Performs the controller's actions, and reports the outcomes to it, on the thread of Tuner::fit.
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
    train::RunMirror* mirror = nullptr;  ///< Null: the experiment stays in the folder.
    std::chrono::milliseconds storage_timeout{0};
    std::function<TrialRoom()> count_room = {};  ///< Null: the room stays as it was at first.
  };
  explicit Experiment(Parts parts) : parts_(parts) {}

  /// Runs until the end, and until everything is stored; false if it was interrupted. Throws
  /// Error(kIo) if the journal cannot be written, or if another process has taken the experiment
  /// over.
  bool run();
  /// What is not in the store when `run` has returned, and why; empty if everything is, or if there
  /// is no store.
  const std::string& missing() const { return missing_; }
  /// Whether that is so because the user did not want to wait.
  bool storing_was_interrupted() const { return storing_was_interrupted_; }

 private:
  void perform(const std::vector<Action>& actions);
  void perform(const Suggest& action);
  void perform(const StartTrial& action);
  void perform(const Judge& action);
  void perform(const InterruptTrial& action);
  void perform(const Note& action);
  void perform(const End& action);
  void look_at_room(const std::optional<Event>& event);
  Deadline next_deadline() const;
  void require_owner() const;
  void warn_of_lost_end(const TrialEnded& event) const;
  void store_the_rest();

  Parts parts_;
  Deadline next_look_at_room_ = Deadline::never();
  bool interrupted_ = false;
  std::string missing_;
  bool storing_was_interrupted_ = false;
};

}  // namespace manta::tune
