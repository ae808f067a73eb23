#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "manta/core/actor.h"
#include "manta/data/piece_internal.h"
#include "manta/data/plan_function.h"
#include "manta/data/work_count_internal.h"

namespace manta::data {

/// The highest `concurrency` of a map_batches.
inline constexpr int kMaxHelpers = 1024;

/// The result of a function of map_batches for a batch, or its error.
struct MappedBatch {
  BatchPtr batch;
  std::string error;  ///< "threw std::runtime_error: no such word"; empty if nothing.

  template <class Archive>
  void serialize(Archive& archive) {
    archive(error);
    if (error.empty()) archive(batch);
  }
};

/// Calls the function and checks its result. Throws nothing.
MappedBatch map_batch(const PlanFunction& function, const BatchPtr& batch);

/// An actor in its own process: see BatchHelpers.
class BatchHelper {
 public:
  explicit BatchHelper(PlanFunction function) : function_(std::move(function)) {}
  MappedBatch map(const BatchPtr& batch) { return map_batch(function_, batch); }

 private:
  const PlanFunction function_;
};

/// Processes that call one function of map_batches. They start when the first batch comes, and end
/// with this object. A process that dies is started anew, and the new one gets its batch; a batch
/// is tried three times in all. Any thread may use it.
class BatchHelpers {
 public:
  BatchHelpers(PlanFunction function, int count) : function_(std::move(function)), count_(count) {}

  int count() const { return count_; }

  /// The function's result for each batch, in order. Gives the processes as many batches at a time
  /// as they have room for; each result counts as `work`. Throws Error(kWorkerLost) if a batch
  /// kills every process that gets it, Error(kInvalidArgument) if the program has not called
  /// `init`.
  std::vector<MappedBatch> map(const Batches& batches, const WorkCountPtr& work = nullptr);

 private:
  struct Call;
  void start();
  /// Gives the batch to the process with the fewest calls; null if none has room.
  std::unique_ptr<Call> try_begin(const BatchPtr& batch);
  MappedBatch finish(const Call& call);
  void end(const Call& call);

  const PlanFunction function_;
  const int count_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<ActorHandle<BatchHelper>> helpers_;
  std::vector<int> calls_;  ///< By helper: calls that it has not answered.
};

}  // namespace manta::data
