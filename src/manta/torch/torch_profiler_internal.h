#pragma once

#include <torch/csrc/autograd/profiler_kineto.h>

#include <string>

namespace manta::internal {

/// Writes a trace to a file, in the place of one that is there, or of a link. Leaves nothing else
/// behind if that fails, which throws.
void save_trace(torch::autograd::profiler::ProfilerResult& trace, const std::string& path);

}  // namespace manta::internal
