#pragma once

#include <c10/core/Device.h>

#include <string>

namespace manta::train {

/// The facts that are known when a rank joins its group, or asks for its device.
struct BackendFacts {
  std::string asked = "auto";  ///< TorchConfig::backend.
  /// The GPUs that this worker was given, as in CUDA_VISIBLE_DEVICES; empty: none, or this is not a
  /// worker.
  std::string gpus = {};
  bool sees_gpu = false;       ///< libtorch sees one of them.
  bool built_for_gpu = false;  ///< libtorch has CUDA.
  bool has_nccl = false;
  bool one_node = true;          ///< All ranks are on one node.
  bool shared_memory = true;     ///< Ranks of a node may use shared memory.
  std::string libtorch = "2.0";  ///< Its version.
};

/// The backends for tensors on each device.
struct BackendChoice {
  enum OnCpu { kShm, kGloo, kHosts };
  OnCpu cpu = kShm;
  /// Tensors on CUDA go over NCCL. Otherwise they cannot be exchanged.
  bool nccl = false;
  bool operator==(const BackendChoice&) const = default;
};

/// Throws Error(kInvalidArgument) if the backend that was asked for is not available.
BackendChoice choose_backends(const BackendFacts& facts);

/// The first of the GPUs that the worker was given, or the CPU if none was. Outside of a worker,
/// the first that libtorch sees, or the CPU. Throws Error(kResources) if a worker was given a GPU
/// that libtorch cannot use: it must not train on the CPU instead.
c10::Device choose_device(const BackendFacts& facts);

/// The facts of this process and its libtorch.
BackendFacts backend_facts();

}  // namespace manta::train
