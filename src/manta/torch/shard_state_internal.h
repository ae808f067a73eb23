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

// What a sharded model holds, and when: sharded_memory.cc.

namespace manta::train::detail {

struct ShardedSync::Param {
  ShardedSync::State* owner = nullptr;
  std::string name;
  torch::Tensor full;    // the module's own
  torch::Tensor padded;  // the shard with room for `capacity` numbers
  torch::Tensor shard;   // its part that counts: what optimizers take
  ShardRange range;
  int64_t capacity = 0;
  int pins = 0;        // operations under way that use it
  int64_t writes = 0;  // operations that have changed the shard
  bool is_gathered = false;
  bool is_trained = true;  // what `full` and `shard` agreed on last

  void agree_on_freezing();
};

/// A parameter in a narrower type, as autocast makes it: autocast and autograd keep it from forward
/// to backward. Its memory is given back and filled again as that of the parameter is.
struct ShardedSync::Narrow {
  Param* param = nullptr;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  torch::ScalarType type = torch::kBFloat16;
  std::vector<int64_t> from_sizes, from_strides;  // of what was converted, a view of the parameter
  int64_t from_offset = 0;
  std::vector<int64_t> sizes, strides;  // of the result
  bool is_whole = false;                // its numbers are those of the parameter, in their order
  c10::VariableVersion version;         // of the result: 0 unless the user has written to it
  int64_t writes = 0;                   // to the shard, before it was converted
  int pins = 0;
  bool is_filled = true;
  bool is_unused = true;  // since it was filled: an operation that is about to take it made it
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
  std::exception_ptr error;  // of a gather: those who call it swallow exceptions
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
