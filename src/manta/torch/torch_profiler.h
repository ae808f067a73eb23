#pragma once

#include <cstdint>
#include <string>

namespace manta {

struct TorchProfilerOptions {
  int64_t first_step = 10;  ///< The first recorded step; the steps before it warm up.
  int64_t num_steps = 3;  ///< How many are recorded. Each operation of them takes about 1 us more.
  bool record_shapes = false;   ///< Of each operation's inputs.
  bool profile_memory = false;  ///< What operations allocate and free.
  /// Where the trace is written. Default: <run folder>/profile. Outside of a training loop it must
  /// be given.
  std::string folder = {};
};

/// Records what PyTorch does in some steps of a worker's loop, as a trace for chrome://tracing or
/// https://ui.perfetto.dev: <folder>/rank-0.attempt-0.steps-10-12.json, one for each worker.
///
/// ```
/// TorchProfiler profiler({.first_step = 10, .num_steps = 3});
/// for (auto& batch : iter_torch_batches(shard)) {
///   ...
///   profiler.step();  // at the end of each step
/// } ``` A profiler that fails, e.g. because the disk is full, warns once and records nothing. Use
/// it from one thread. Use one at a time in a process: a second one warns and records nothing.
class TorchProfiler {
 public:
  /// Throws Error(kInvalidArgument) if an option makes no sense, or there is no folder.
  explicit TorchProfiler(const TorchProfilerOptions& options = {});
  ~TorchProfiler();  ///< Writes the trace so far, if not all steps to record have come.
  TorchProfiler(const TorchProfiler&) = delete;
  TorchProfiler& operator=(const TorchProfiler&) = delete;

  /// Ends a step; the next one begins.
  void step();
  /// The trace, once it is written; empty before.
  const std::string& path() const { return path_; }

 private:
  void start();
  void finish();

  const TorchProfilerOptions options_;
  std::string folder_, inner_, name_;  // the trace is in folder_/inner_
  int64_t step_ = 0;                   // under way
  bool recording_ = false;
  std::string path_;
};

}  // namespace manta
