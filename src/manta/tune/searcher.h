#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "manta/tune/assignment.h"
#include "manta/tune/space.h"
#include "manta/tune/trial_info.h"

namespace manta::tune {

/// What a searcher searches.
struct SearchProblem {
  Space space;
  Objective objective;
  int num_samples = 1;
  uint64_t seed = 0;  ///< Draw from Random(seed, number), so that a suggestion can be repeated.
};

/// Suggests what to try. A policy: it returns values and does nothing else. When an experiment is
/// restored, a new Searcher is told everything that happened, in the same order, and asked for the
/// suggestions that are not in the journal.
class Searcher {
 public:
  virtual ~Searcher() = default;
  /// Suggestion number 0, 1, ...; each is asked for once. Return nothing if there are no more.
  virtual std::optional<Assignment> suggest(uint64_t number) = 0;
  /// A trial has reported. `result` has its metrics, training_iteration (from 1) and time_total_s.
  virtual void on_result(const TrialInfo& trial, const Json& result) = 0;
  /// A trial has ended. `last_result` is null if it failed or reported nothing.
  virtual void on_complete(const TrialInfo& trial, const Json& last_result) = 0;
};

/// Draws every value independently, and tries all combinations of grids, `num_samples` times. The
/// default.
struct RandomSearch {};

/// A search algorithm: RandomSearch, or a Searcher of your own. Each experiment gets a new one.
class AnySearcher {
 public:
  using Make = std::function<std::unique_ptr<Searcher>(const SearchProblem&)>;

  AnySearcher() : AnySearcher(RandomSearch{}) {}
  AnySearcher(RandomSearch options);  // NOLINT: it is one
  /// A searcher of your own: its name for messages, and a function that makes one for each
  /// experiment.
  AnySearcher(std::string name, Make make) : name_(std::move(name)), make_(std::move(make)) {}

  const std::string& name() const { return name_; }
  std::unique_ptr<Searcher> make(const SearchProblem& problem) const { return make_(problem); }
  /// For files; null if it is one of your own, which is not stored.
  Json to_json() const { return json_; }
  static AnySearcher from_json(const Json& json, const std::string& document);

 private:
  std::string name_;
  Make make_;
  Json json_;
};

}  // namespace manta::tune
