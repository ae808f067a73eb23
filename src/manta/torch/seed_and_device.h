#pragma once

#include <torch/types.h>

#include <cstdint>

namespace manta::train {

struct SeedOptions {
  /// Gives each worker a seed of its own: `seed` plus its rank. Use it for numbers that should
  /// differ between workers, e.g. for dropout and augmentation. False: the same numbers everywhere.
  bool per_rank = false;
  /// Also makes libtorch use algorithms that give the same result in each run, which may be slower,
  /// and throw if it has no such algorithm: `torch.use_deterministic_algorithms(True)`, without
  /// cuDNN's search for the fastest one. False: leaves libtorch's setting as it is.
  bool deterministic = false;
};

/// Seeds libtorch's generators, of all devices, and std::rand of this process. Returns the seed
/// that it used, for generators of your own: `std::mt19937_64 mine(seed_all(7, {.per_rank =
/// true}))`. Works in a training loop and outside.
uint64_t seed_all(uint64_t seed, const SeedOptions& options = {});

/// The device for this worker's model and batches: the GPU that the worker was given (`use_gpu`),
/// which is device 0 of those that it sees, or the CPU if it was given none. Throws
/// Error(kResources) if libtorch cannot use the GPU. Outside of a worker: the first GPU that
/// libtorch sees, or the CPU.
torch::Device get_device();

}  // namespace manta::train
