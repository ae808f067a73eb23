#include <ATen/Context.h>
#include <torch/cuda.h>
#include <torch/headeronly/version.h>

#include <cstdlib>

#include "manta/base/error_internal.h"
#include "manta/core/client_internal.h"
#include "manta/torch/backend_choice_internal.h"
#include "manta/torch/nccl_group_internal.h"

namespace manta::train {
namespace {

// The GPUs that this worker was given, as CUDA knows them. The variable alone does not tell:
// outside a worker, the user or a scheduler may have set it.
std::string granted_gpus() {
  auto client = Client::current_or_null();
  auto task = client ? client->running() : nullptr;
  if (!task || task->context.gpu_ids.empty()) return "";
  const char* gpus = std::getenv("CUDA_VISIBLE_DEVICES");
  return gpus ? gpus : "";
}

std::string libtorch_of(const BackendFacts& facts) { return str("libtorch ", facts.libtorch); }

}  // namespace

BackendChoice choose_backends(const BackendFacts& facts) {
  BackendChoice choice;
  if (facts.asked == "nccl") {
    if (!facts.has_nccl) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("torch_config.backend is 'nccl', which ", libtorch_of(facts),
                      " of this program does not have: build with a libtorch for CUDA "
                      "(-DMANTA_TORCH=<folder>), or leave backend 'auto'"));
    }
    if (!facts.sees_gpu) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("torch_config.backend is 'nccl', but this worker sees no GPU ",
                      facts.gpus.empty()
                          ? "(none was asked for: set scaling_config.use_gpu)"
                          : str("(it was given ", facts.gpus, ", which CUDA does not show)")));
    }
  }
  if (!facts.one_node && facts.shared_memory) {
    choice.cpu = BackendChoice::kHosts;
  } else if (!facts.shared_memory) {
    choice.cpu = BackendChoice::kGloo;
  }
  choice.nccl = facts.has_nccl && facts.sees_gpu && facts.asked != "gloo" && facts.asked != "shm";
  return choice;
}

c10::Device choose_device(const BackendFacts& facts) {
  if (facts.sees_gpu) return {c10::DeviceType::CUDA, 0};
  if (facts.gpus.empty()) return c10::DeviceType::CPU;
  throw Error(
      ErrorKind::kResources,
      str("train::get_device: this worker was given GPU ", facts.gpus,
          " (CUDA_VISIBLE_DEVICES), but ", libtorch_of(facts),
          facts.built_for_gpu ? " sees none: does its CUDA fit this machine's driver?"
                              : " of this program is built for CPUs only: build with one for CUDA "
                                "(-DMANTA_TORCH=<folder>), or set use_gpu = false"));
}

BackendFacts backend_facts() {
  BackendFacts facts;
  facts.gpus = granted_gpus();
  facts.sees_gpu = torch::cuda::is_available();
  facts.built_for_gpu = at::Context::hasCUDART();
  facts.has_nccl = has_nccl();
  facts.libtorch = TORCH_VERSION;
  return facts;
}

}  // namespace manta::train
