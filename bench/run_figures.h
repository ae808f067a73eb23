#pragma once

#include <cstdint>
#include <string>

#include "manta/base/json.h"

/// What a training run costs beside the training. Each figure is a list of what was measured.
///   fit              `fit` of a loop that joins its group and reports, on two workers
///   kill <file>      how long two workers that train on the taxi data stand still when one of
///                    them is killed (crash, cut: when its host is lost)
///   checkpoint       how long reporting 1 GiB holds the loop
///   checkpoint-slow  the same with a storage path that slow_disk.cc makes slow
/// `start_ns`: CLOCK_MONOTONIC when this process was spawned.
manta::Json run_figures(const std::string& what, const std::string& file, int64_t start_ns);
