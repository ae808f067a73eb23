#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "manta/tune/scheduler.h"
#include "manta/tune/searcher.h"

namespace manta {

/// How a search goes. Every field has a default.
struct TuneConfig {
  /// What ResultGrid::get_best_result and the scheduler compare: a metric that trials report.
  /// "eval/f1" is the field f1 of eval.
  std::string metric = {};
  std::string mode = {};  ///< "min" or "max". Required with a metric.
  /// How many times values are drawn from the space. With grids: how many times each combination is
  /// tried.
  int num_samples = 1;
  /// How many trials run at a time. 0: as many as resources allow, at most 256.
  int max_concurrent_trials = 0;
  tune::AnySearcher search_alg = {};  ///< Default: tune::RandomSearch.
  tune::AnyScheduler scheduler = {};  ///< Default: tune::FIFOScheduler.
  /// The share of all CPUs that trials may hold at a time, from above 0 to 1; the rest is for tasks
  /// and the like that they start. One trial may always run. Default: 0.8 with 5 CPUs or more,
  /// otherwise 1.
  std::optional<double> max_cpu_fraction = {};
  /// The same seed gives the same suggestions. Default: drawn, and kept in the experiment's folder.
  std::optional<uint64_t> seed = {};
};

}  // namespace manta
