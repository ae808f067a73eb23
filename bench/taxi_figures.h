#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "manta/base/json.h"

struct TaxiBench {
  std::string file;                                    ///< Or a folder of them.
  int64_t rows = std::numeric_limits<int64_t>::max();  ///< The most rows of an epoch.
  int64_t batch = 64;
  int workers = 1;
  bool map_batches = false;  ///< Adds a function that changes nothing.
  bool in_step = false;      ///< Bare loops wait for each other after each step.
};

/// The taxi example in pieces, with one thread of torch. Rates are those of each epoch but the
/// first of four.
///   train        the training loop in all workers
///   bare         the same on tensors in memory, without Manta: loops that know nothing of each
///                other
///   ingest       the data only, in one worker
///   ingest-peak  how much memory that takes
manta::Json taxi_figures(const std::string& what, const TaxiBench& taxi);
