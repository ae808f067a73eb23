#pragma once

#include <string>

namespace manta {

/// How the workers of PyTorch exchange gradients.
struct TorchConfig {
  /// "auto": shared memory within a node (up to 512 workers), Gloo between nodes, NCCL for CUDA
  /// tensors. "shm", "gloo": only that backend, for CPU tensors only. "nccl": as "auto", but
  /// libtorch must have NCCL.
  std::string backend = "auto";
};

}  // namespace manta
