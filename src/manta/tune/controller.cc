#include <algorithm>
#include <cmath>

#include "manta/base/json_input_internal.h"
#include "manta/tune/controller_internal.h"
#include "manta/tune/trial_json_internal.h"

namespace manta::tune {
namespace {

TrialInfo info_of(const Trial& trial) { return {trial.number, trial.config}; }

// The result in the form that searchers and schedulers get.
Json result_of(const TrialReport& report, int64_t index) {
  Json result = report.metrics.is_object() ? report.metrics : Json::object();
  result["training_iteration"] = index + 1;
  result["time_total_s"] = report.time_total_s;
  return result;
}

// Converts values to the journal's form, so that a reader of the journal sees the same: values that
// are not finite become null.
Json as_stored(Json json) {
  if (json.is_number_float() && !std::isfinite(json.get<double>())) return nullptr;
  if (json.is_structured()) {
    for (auto& each : json) each = as_stored(std::move(each));
  }
  return json;
}

// Another attempt would end in the same way.
bool is_final(ErrorKind kind) {
  return kind == ErrorKind::kInvalidArgument || kind == ErrorKind::kResources;
}

}  // namespace

Controller::Controller(Options options, Searcher& searcher, Scheduler& scheduler)
    : max_failures_(options.max_failures),
      room_(std::move(options.room)),
      searcher_(searcher),
      scheduler_(scheduler),
      ledger_(room_.total) {}

// ---- The effects of notes.

void Controller::note(int attempt, const char* event, Json details) {
  apply(attempt, event, details, /*is_new=*/true);
  add(Note{attempt, event, std::move(details)});
}

void Controller::replay(int attempt, const std::string& event, const Json& details) {
  apply(attempt, event, details, /*is_new=*/false);
}

void Controller::apply(int attempt, const std::string& event, const Json& details, bool is_new) {
  if (event == kTrial) return apply_trial(details);
  if (event == kInterrupted || event == kExperimentEnded) return;
  auto number = details.at("trial").get<uint64_t>();
  if (number >= trials_.size())
    throw Error(ErrorKind::kCorrupt, str("trial ", number, " has not been suggested"));
  Trial& trial = trials_[number];
  trial.attempt = std::max(trial.attempt, attempt);
  if (event == kStarted) {
    trial.state = Trial::kRunning;
    pending_.erase(number);
  } else if (event == kResult) {
    apply_result(trial, details, is_new);
  } else if (event == kEnded) {
    apply_end(trial, details);
  } else if (event == kRevived) {
    trial.state = Trial::kPending;
    trial.error.reset();
    trial.failures = 0;
    pending_.insert(number);
  }
}

void Controller::apply_trial(const Json& details) {
  auto number = details.at("trial").get<uint64_t>();
  if (number != trials_.size())
    throw Error(ErrorKind::kCorrupt,
                str("trial ", number, " follows trial ", static_cast<int64_t>(trials_.size()) - 1));
  Trial trial;
  trial.number = number;
  trial.assignment = details.at("assignment").get<Assignment>();
  trial.config = details.at("config");
  trial.resources = resources_from_json(details.at("resources"));
  trials_.push_back(std::move(trial));
  pending_.insert(number);
}

void Controller::apply_result(Trial& trial, const Json& details, bool is_new) {
  TrialReport report{details.at("metrics"), details.at("time_total_s").get<double>(),
                     details.at("checkpoint").get<bool>()};
  Json result = result_of(report, details.at("index").get<int64_t>());
  // The scheduler has been asked about a new result already.
  if (!is_new) scheduler_.on_result(info_of(trial), result);
  searcher_.on_result(info_of(trial), result);
  trial.stopped = trial.stopped || details.at("decision") == "stop";
  trial.reports.push_back(std::move(report));
}

void Controller::apply_end(Trial& trial, const Json& details) {
  RunOutcome outcome = outcome_from_name(details.at("outcome").get<std::string>());
  if (details.at("retry").get<bool>()) {
    ++trial.failures;
    trial.state = Trial::kPending;
    pending_.insert(trial.number);
    return;
  }
  trial.state = Trial::kDone;
  trial.outcome = outcome;
  pending_.erase(trial.number);
  Json last;
  if (!trial.reports.empty())
    last = result_of(trial.reports.back(), static_cast<int64_t>(trial.reports.size()) - 1);
  if (outcome == RunOutcome::kFailed) {
    trial.error = Error(kind_from_name(details.at("kind").get<std::string>()),
                        details.at("message").get<std::string>());
    last = nullptr;
  } else if (outcome == RunOutcome::kFinished) {
    scheduler_.on_complete(info_of(trial), last);
  }
  searcher_.on_complete(info_of(trial), last);
}

// ---- The effects of events.

std::vector<Action> Controller::begin() {
  for (Trial& trial : trials_) {
    if (trial.state == Trial::kRunning) {  // when the journal's writer died
      trial.state = Trial::kPending;
      pending_.insert(trial.number);
    }
    if (trial.state == Trial::kPending && trial.stopped) {
      note(trial.attempt, kEnded,
           {{"trial", trial.number}, {"outcome", "stopped"}, {"retry", false}});
    } else if (trial.state == Trial::kDone && trial.error && revive_failed_) {
      note(trial.attempt, kRevived, {{"trial", trial.number}});
    }
  }
  go_on();
  return std::exchange(actions_, {});
}

std::vector<Action> Controller::handle(const Event& event) {
  if (ended_) return {};
  std::visit([&](const auto& each) { on(each); }, event);
  return std::exchange(actions_, {});
}

Trial* Controller::current(uint64_t number, int attempt) {
  if (!running_.contains(number) || trials_[number].attempt != attempt) return nullptr;
  return &trials_[number];
}

void Controller::on(const Suggested& event) {
  if (!suggesting_ || event.number != trials_.size()) return;
  suggesting_ = false;
  if (!event.suggestion) {
    exhausted_ = true;
  } else {
    note(0, kTrial,
         {{"trial", event.number},
          {"assignment", event.suggestion->assignment},
          {"config", event.suggestion->config},
          {"resources", to_json(event.suggestion->resources)}});
  }
  go_on();
}

void Controller::on(const Reported& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (!trial) return;
  // A report that a restarted trial makes again has been decided already.
  if (event.index >= static_cast<int64_t>(trial->reports.size())) {
    TrialReport report{as_stored(event.metrics), event.time_total_s, event.has_checkpoint};
    Verdict verdict = scheduler_.on_result(info_of(*trial), result_of(report, event.index));
    note(event.attempt, kResult,
         {{"trial", event.trial},
          {"index", event.index},
          {"metrics", std::move(report.metrics)},
          {"time_total_s", event.time_total_s},
          {"checkpoint", event.has_checkpoint},
          {"decision", verdict == Verdict::kStop ? "stop" : "go_on"}});
  }
  add(Judge{event.trial, event.attempt, event.index,
            trial->stopped ? Verdict::kStop : Verdict::kGoOn});
}

void Controller::on(const TrialEnded& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (!trial) return;
  leave(*trial);
  if (trial->stopped) {  // in whatever way it ended
    note(event.attempt, kEnded, {{"trial", event.trial}, {"outcome", "stopped"}, {"retry", false}});
  } else if (event.outcome == RunOutcome::kInterrupted) {
    trial->state = Trial::kPending;  // for the next time
    pending_.insert(trial->number);
    interrupted_ = true;
  } else if (event.outcome == RunOutcome::kFailed) {
    bool again = max_failures_ < 0 || trial->failures < max_failures_;
    note(event.attempt, kEnded,
         {{"trial", event.trial},
          {"outcome", "failed"},
          {"kind", kind_name(event.kind)},
          {"message", event.message},
          {"retry", again && !is_final(event.kind)}});
  } else {  // a user's callback may have stopped it
    const char* outcome = event.outcome == RunOutcome::kFinished ? "finished" : "stopped";
    note(event.attempt, kEnded, {{"trial", event.trial}, {"outcome", outcome}, {"retry", false}});
  }
  go_on();
}

void Controller::on(const Interrupted&) {
  if (std::exchange(interrupted_, true)) return;
  for (const auto& [number, grants] : running_)
    add(InterruptTrial{number, trials_[number].attempt});
  go_on();
}

// Counts the running trials anew.
void Controller::on(const TrialRoom& event) {
  if (event == room_) return;
  room_ = event;
  ledger_ = NodeLedger(room_.total);
  for (auto& [number, grants] : running_) {
    if (grants.empty()) continue;
    grants.clear();
    crowded_out_.insert(number);
  }
  go_on();
}

// In the order of their numbers, in which they began.
void Controller::place_crowded_out() {
  while (!crowded_out_.empty()) {
    uint64_t number = *crowded_out_.begin();
    auto grants = ledger_.acquire_all(trials_[number].resources, number);
    if (!grants) return;
    running_.at(number) = std::move(*grants);
    crowded_out_.erase(number);
  }
}

bool Controller::admit(const Trial& trial) {
  if (running_.size() >= static_cast<size_t>(room_.max_concurrent) || !crowded_out_.empty())
    return false;
  auto grants = ledger_.acquire_all(trial.resources, trial.number);
  if (!grants && !running_.empty()) return false;
  running_[trial.number] = grants.value_or(std::vector<Grant>());
  return true;
}

void Controller::leave(const Trial& trial) {
  for (const Grant& grant : running_.at(trial.number)) ledger_.release(grant);
  running_.erase(trial.number);
  crowded_out_.erase(trial.number);
}

void Controller::go_on() {
  place_crowded_out();
  while (!interrupted_ && !pending_.empty() && admit(trials_[*pending_.begin()])) {
    Trial& trial = trials_[*pending_.begin()];
    note(trial.attempt + 1, kStarted, {{"trial", trial.number}});
    add(StartTrial{trial.number, trial.attempt});
  }
  bool has_place = running_.size() < static_cast<size_t>(room_.max_concurrent);
  if (!interrupted_ && pending_.empty() && has_place && !exhausted_ && !suggesting_) {
    suggesting_ = true;
    add(Suggest{trials_.size()});
  }
  bool nothing_left = pending_.empty() && exhausted_ && !suggesting_;
  if (!running_.empty() || !(interrupted_ || nothing_left)) return;
  ended_ = true;
  note(0, interrupted_ ? kInterrupted : kExperimentEnded, Json::object());
  add(End{interrupted_});
}

}  // namespace manta::tune
