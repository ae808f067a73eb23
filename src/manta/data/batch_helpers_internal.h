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

/// The most that a map_batches may ask for.
inline constexpr int kMaxHelpers = 1024;

/// What a function of map_batches made of a batch, or what is wrong with it.
struct MappedBatch {
  BatchPtr batch;
  std::string error;  ///< "threw std::runtime_error: no such word"; empty if nothing.

  template <class Archive>
  void serialize(Archive& archive) {
    archive(error);
    if (error.empty()) archive(batch);
  }
};

/// Calls the function and looks at what it returns. Throws nothing.
MappedBatch map_batch(const PlanFunction& function, const BatchPtr& batch);

/// In a process of its own: see BatchHelpers.
class BatchHelper {
 public:
  explicit BatchHelper(PlanFunction function) : function_(std::move(function)) {}
  MappedBatch map(const BatchPtr& batch) { return map_batch(function_, batch); }

 private:
  const PlanFunction function_;
};

/// Processes that call one function of map_batches. They start when the first batch comes, and end
/// with this. A process that dies is started anew, and the batch that it had is given to the new
/// one, three times in all. Any thread may use it.
class BatchHelpers {
 public:
  BatchHelpers(PlanFunction function, int count) : function_(std::move(function)), count_(count) {}

  int count() const { return count_; }

  /// What the function makes of each batch, in order. Gives the processes as many of them at a time
  /// as they have room for; each that comes back counts as `work`. Throws Error(kWorkerLost) if a
  /// batch kills every process that it is given to, Error(kInvalidArgument) if the program has not
  /// called `init`.
  std::vector<MappedBatch> map(const Batches& batches, const WorkCountPtr& work = nullptr);

 private:
  struct Call;
  void start();
  /// Gives it to the process with the least to do; null if none has room.
  std::unique_ptr<Call> try_begin(const BatchPtr& batch);
  MappedBatch finish(const Call& call);
  void end(const Call& call);

  const PlanFunction function_;
  const int count_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<ActorHandle<BatchHelper>> helpers_;
  std::vector<int> calls_;  ///< By helper, that it has not answered.
};

}  // namespace manta::data
