#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <torch/types.h>

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "manta/torch/shard_plan_internal.h"
#include "manta/torch/sharded_sync.h"

// The memory of a sharded model; sharded_memory.cc decides what it holds when.

namespace manta::train::detail {

struct ShardedSync::Param {
  ShardedSync::State* owner = nullptr;
  std::string name;
  torch::Tensor full;    // the module's own
  torch::Tensor padded;  // the shard with room for `capacity` numbers
  torch::Tensor shard;   // the part of `padded` that counts, which optimizers take
  ShardRange range;
  int64_t capacity = 0;
  int pins = 0;        // operations under way that use the parameter
  int64_t writes = 0;  // operations that have changed the shard
  bool is_gathered = false;
  bool is_trained = true;  // the value on which `full` and `shard` agreed last

  void agree_on_freezing();
};

/// A parameter in a narrower type, as autocast makes it: autocast and autograd keep it from forward
/// to backward. Its memory is freed and filled again together with the parameter's memory.
struct ShardedSync::Narrow {
  Param* param = nullptr;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  torch::ScalarType type = torch::kBFloat16;
  std::vector<int64_t> from_sizes, from_strides;  // of the converted view of the parameter
  int64_t from_offset = 0;
  std::vector<int64_t> sizes, strides;  // of the result
  bool is_whole = false;                // it has all numbers of the parameter, in their order
  c10::VariableVersion version;         // of the result: 0 unless the user has written to it
  int64_t writes = 0;                   // writes to the shard before the conversion
  int pins = 0;
  bool is_filled = true;
  bool is_unused = true;  // not used since it was filled: the operation that made it is about to
                          // take it
};

struct ShardedSync::State {
  const std::thread::id loop = std::this_thread::get_id();
  SyncOptions options;
  c10::intrusive_ptr<c10d::Backend> backend;
  std::vector<std::unique_ptr<Param>> params;
  std::vector<std::shared_ptr<Narrow>> narrow;
  std::vector<torch::Tensor> buffers;
  std::atomic<bool> is_exchanging{false};  // backends may work on gathered memory in other threads
  bool in_forward = false;
  int task = -1;             // the backward that finish_backward was queued for
  std::exception_ptr error;  // the error of a gather: its callers swallow exceptions
  const int* paused = nullptr;

  void observe();
  void stop_observing();
  void gather(Param& param);
  void fill(Narrow& copy);
  void fill(const Narrow& copy, c10::Storage storage);
  void gather_into(const Param& param, c10::Storage storage, const torch::Tensor& share);
  void fail(const Param& param, std::exception_ptr why);
  void release_unpinned();
  void forget_freed();
  void rethrow();
  void on_gradient(Param& param);
  void reduce(Param& param);
  void finish_backward();
};

}  // namespace manta::train::detail
