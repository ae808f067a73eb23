#pragma once

#include <cstdint>
#include <string>

#include "manta/base/json.h"

struct LoopBench {
  int workers = 2;
  int64_t bytes = 1024;
  std::string backend = "auto";  ///< Of the process group.
  bool fsync = false;
};

/// What the functions that a training loop calls cost it. Each figure is a list of what was
/// measured.
///   report      `report` without a checkpoint after each step of a millisecond's work, and the
///   steps
///               that all of that leaves, with and without trackers that write files
///   commit      checkpoints of 1 GiB, one after the other, with or without fsync
///   allreduce   a sum over the workers, and as many bytes copied twice by each at the same time
manta::Json loop_figures(const std::string& what, const LoopBench& bench);
