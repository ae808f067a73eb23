#pragma once

#include "manta/base/names_internal.h"
#include "manta/core/zygote_internal.h"

namespace manta {

/// Connects to the run and does what it is told until it is told to end. Never returns; exits with
/// 0 unless the run could not be joined.
[[noreturn]] void run_worker(const RunAddress& address, ProcessId process, const std::string& name);

/// Runs a call: decodes, invokes, and turns what is thrown into an error that names the task. What
/// the result refers to lives at least as long as `keep_alive`.
Outcome run_call(const TaskSpec& spec, const std::vector<Value>& ref_values,
                 std::shared_ptr<void>* instance, std::shared_ptr<void>* keep_alive);

/// Sets how many threads libraries use: OMP_NUM_THREADS, OpenMP itself if it is loaded, and Arrow's
/// pool.
void set_thread_count(int threads);
/// OpenMP keeps the number for each thread that uses it: sets that of the calling one.
void set_openmp_threads(int threads);

}  // namespace manta
