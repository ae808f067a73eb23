#include "manta/base/interrupts_internal.h"
#include "manta/tune/experiment_internal.h"
#include "manta/tune/space_internal.h"

namespace manta::tune {
namespace {

// How soon output that standard error did not take is tried again.
constexpr std::chrono::milliseconds kWriteAgain{50};

}  // namespace

bool Experiment::run() {
  InterruptListener interrupts([&events = parts_.events] { events.push(Interrupted{}); });
  perform(parts_.controller.begin());
  while (!parts_.controller.ended()) {
    auto event = parts_.events.pop(next_deadline());
    parts_.progress.write();
    if (event) {
      if (auto* ended = std::get_if<TrialEnded>(&*event)) parts_.trials.release(ended->trial);
      perform(parts_.controller.handle(*event));
    }
    parts_.progress.update(parts_.controller.trials());
  }
  return !interrupted_;
}

Deadline Experiment::next_deadline() const {
  Deadline next = parts_.progress.next_update();
  if (!parts_.progress.has_more_to_write()) return next;
  Deadline again = Deadline::after(kWriteAgain);
  return again.at() < next.at() ? again : next;
}

void Experiment::perform(const std::vector<Action>& actions) {
  for (const auto& action : actions) std::visit([&](const auto& each) { perform(each); }, action);
}

void Experiment::perform(const Suggest& action) {
  Suggested suggested{action.number, {}};
  if (auto assignment = parts_.searcher.suggest(action.number)) {
    Suggestion suggestion;
    suggestion.config = resolve(parts_.space, *assignment);
    suggestion.resources = parts_.trials.resources(*assignment);
    suggestion.assignment = std::move(*assignment);
    suggested.suggestion = std::move(suggestion);
  }
  parts_.events.push(std::move(suggested));
}

// What cannot begin has failed: the others go on.
void Experiment::perform(const StartTrial& action) {
  try {
    parts_.trials.start(parts_.controller.trials()[action.trial]);
  } catch (const Error& error) {
    parts_.events.push(
        TrialEnded{action.trial, action.attempt, RunOutcome::kFailed, error.kind(), error.what()});
  }
}

void Experiment::perform(const Judge& action) { parts_.trials.judge(action); }
void Experiment::perform(const InterruptTrial& action) { parts_.trials.interrupt(action.trial); }

void Experiment::perform(const Note& action) {
  parts_.folder.note(action);
  if (action.event == kEnded && action.details.at("outcome") == "failed")
    parts_.progress.failed(parts_.controller.trials()[action.details.at("trial").get<size_t>()]);
}

void Experiment::perform(const End& action) { interrupted_ = action.interrupted; }

}  // namespace manta::tune
