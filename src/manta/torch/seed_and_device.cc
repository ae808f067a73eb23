#include "manta/torch/seed_and_device.h"

#include <ATen/Context.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <cstdlib>

#include "manta/torch/backend_choice_internal.h"
#include "manta/train/session_internal.h"

namespace manta::train {

uint64_t seed_all(uint64_t seed, const SeedOptions& options) {
  const Session* session = Session::current_or_null();
  if (options.per_rank && session) seed += static_cast<uint64_t>(session->begin().rank);
  torch::manual_seed(seed);
  std::srand(static_cast<unsigned>(seed));
  if (options.deterministic) {
    // cuBLAS reads it when it begins, and libtorch refuses to multiply without it.
    if (torch::cuda::is_available()) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    at::globalContext().setBenchmarkCuDNN(false);
  }
  return seed;
}

torch::Device get_device() { return choose_device(backend_facts()); }

}  // namespace manta::train
