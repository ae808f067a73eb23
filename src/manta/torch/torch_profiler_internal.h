#pragma once

#include <torch/csrc/autograd/profiler_kineto.h>

#include <string>

namespace manta::internal {

/// Writes a trace to a file; replaces an existing file, or a link. If that fails, it throws and
/// leaves no other files behind.
void save_trace(torch::autograd::profiler::ProfilerResult& trace, const std::string& path);

}  // namespace manta::internal
