#include "manta/base/error_internal.h"
#include "manta/base/interrupts_internal.h"
#include "manta/base/log_internal.h"
#include "manta/tune/experiment_internal.h"
#include "manta/tune/space_internal.h"

namespace manta::tune {
namespace {

// After this time, output that standard error did not take is tried again.
constexpr std::chrono::milliseconds kWriteAgain{50};
constexpr std::chrono::seconds kLookAtRoom{1};  // the longest delay in using new nodes

}  // namespace

bool Experiment::run() {
  InterruptListener interrupts([&events = parts_.events] { events.push(Interrupted{}); });
  if (parts_.count_room) next_look_at_room_ = Deadline::after(kLookAtRoom);
  perform(parts_.controller.begin());
  while (!parts_.controller.ended()) {
    auto event = parts_.events.pop(next_deadline());
    parts_.progress.write();
    require_owner();
    look_at_room(event);
    if (event) {
      if (auto* ended = std::get_if<TrialEnded>(&*event)) {
        parts_.trials.release(ended->trial);
        warn_of_lost_end(*ended);
      }
      perform(parts_.controller.handle(*event));
    }
    parts_.progress.update(parts_.controller.trials());
  }
  store_the_rest();
  return !interrupted_;
}

// A trial that was lost with its node must not be started again in room that went with the node.
void Experiment::look_at_room(const std::optional<Event>& event) {
  auto* ended = event ? std::get_if<TrialEnded>(&*event) : nullptr;
  bool is_lost = ended && ended->kind == ErrorKind::kWorkerLost;
  if (!parts_.count_room || !(is_lost || next_look_at_room_.passed())) return;
  next_look_at_room_ = Deadline::after(kLookAtRoom);
  perform(parts_.controller.handle(parts_.count_room()));
}

// Another driver decides now: this one must not go on.
void Experiment::require_owner() const {
  std::string why = parts_.mirror ? parts_.mirror->superseded() : "";
  if (why.empty()) return;
  throw Error(ErrorKind::kIo, str(why, "\n  what it did since is in ", parts_.folder.path()));
}

// The experiment itself counts the trial as stopped, as the scheduler has decided.
void Experiment::warn_of_lost_end(const TrialEnded& event) const {
  if (event.outcome != RunOutcome::kFailed || event.kind != ErrorKind::kIo) return;
  if (!parts_.controller.trials()[event.trial].stopped) return;
  log_warning(
      str(trial_name(event.trial), " was stopped, and did not end in order: ", event.message));
}

void Experiment::store_the_rest() {
  if (!parts_.mirror) return;
  auto wait = [&](Deadline until) {
    auto event = parts_.events.pop(until);
    // An interrupted experiment is stored, too; there may have been a second interrupt.
    if (event && std::holds_alternative<Interrupted>(*event) && !interrupted_)
      storing_was_interrupted_ = true;
    return storing_was_interrupted_;
  };
  missing_ = parts_.mirror->finish(parts_.storage_timeout, wait,
                                   [&](const std::string& text) { parts_.progress.say(text); });
  if (missing_.empty()) return;
  missing_ += str("\n  all of it is in ", parts_.folder.path(),
                  parts_.mirror->superseded().empty()
                      ? ": Tuner::restore with that path stores the rest, once the store is there "
                        "again"
                      : "");
}

Deadline Experiment::next_deadline() const {
  Deadline next = parts_.progress.next_update();
  auto not_after = [&next](Deadline other) { next = other.at() < next.at() ? other : next; };
  not_after(next_look_at_room_);
  if (parts_.progress.has_more_to_write()) not_after(Deadline::after(kWriteAgain));
  return next;
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

// A trial that cannot begin has failed: the others go on.
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
