#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/init.h"
#include "manta/core/remote.h"
#include "manta/data/batch_helpers_internal.h"
#include "manta/data/unknown_column_internal.h"

namespace manta::data {
namespace {

// One call is computed and one is on the way, so that no process waits for its next batch.
constexpr int kCallsOfAHelper = 2;
constexpr int kTimesThatABatchIsGiven = 3;
constexpr int kMostRestarts = 1'000'000;

}  // namespace

MappedBatch map_batch(const PlanFunction& function, const BatchPtr& batch) {
  MappedBatch mapped;
  try {
    mapped.batch = function(batch);
  } catch (const std::exception& error) {
    mapped.error = str("threw ", demangle(typeid(error).name()), ": ", error.what());
    return mapped;
  } catch (...) {
    mapped.error = "threw what is no std::exception";
    return mapped;
  }
  if (!mapped.batch) {
    mapped.error = "returned no batch; return one with no rows to drop them all";
    return mapped;
  }
  auto valid = mapped.batch->Validate();
  if (!valid.ok()) mapped.error = str("returned a batch that is not valid: ", valid.message());
  try {
    require_distinct(mapped.batch->schema()->field_names(), "the batch that it returned");
  } catch (const Error& error) {
    mapped.error = error.what();
  }
  if (!mapped.error.empty()) mapped.batch = nullptr;
  return mapped;
}

struct BatchHelpers::Call {
  size_t helper = 0;
  ObjectRef<MappedBatch> result = {};
};

void BatchHelpers::start() {
  if (!is_initialized()) {
    throw Error(ErrorKind::kInvalidArgument,
                str(function_.function_name(), " of map_batches is to run in ", count_,
                    " processes (concurrency), which needs manta::init at the start of main"));
  }
  std::vector<ActorOptions> options;
  for (int i = 0; i < count_; ++i) {
    ActorOptions& each = options.emplace_back();
    each.process_name = str("map_batches-", i);
    each.max_restarts = kMostRestarts;
    each.max_call_retries = kTimesThatABatchIsGiven - 1;
    each.labels = {{"id", str(get_runtime_context().node_id)}};  // rows come from here, and go here
  }
  helpers_ = actor_group<BatchHelper>(options, function_);
  calls_.assign(helpers_.size(), 0);
}

std::unique_ptr<BatchHelpers::Call> BatchHelpers::try_begin(const BatchPtr& batch) {
  auto call = std::make_unique<Call>();
  {
    std::lock_guard lock(mutex_);
    if (helpers_.empty()) start();
    auto idlest = std::min_element(calls_.begin(), calls_.end());
    if (*idlest == kCallsOfAHelper) return nullptr;
    call->helper = static_cast<size_t>(idlest - calls_.begin());
    ++*idlest;
  }
  try {  // Copies the rows.
    call->result = helpers_[call->helper].call<&BatchHelper::map>(batch);
  } catch (...) {
    end(*call);
    throw;
  }
  return call;
}

void BatchHelpers::end(const Call& call) {
  std::lock_guard lock(mutex_);
  --calls_[call.helper];
  ended_.notify_all();
}

MappedBatch BatchHelpers::finish(const Call& call) {
  try {
    MappedBatch mapped = get(call.result);
    end(call);
    return mapped;
  } catch (...) {
    end(call);
    throw;
  }
}

std::vector<MappedBatch> BatchHelpers::map(const Batches& batches, const WorkCountPtr& work) {
  std::vector<MappedBatch> results;
  std::deque<std::unique_ptr<Call>> calls;
  try {
    for (size_t next = 0; results.size() < batches.size();) {
      std::unique_ptr<Call> call;
      if (next < batches.size()) call = try_begin(batches[next]);
      if (call) {
        calls.push_back(std::move(call));
        ++next;
      } else if (!calls.empty()) {
        call = std::move(calls.front());
        calls.pop_front();
        results.push_back(finish(*call));
        count_work(work);
      } else {  // all busy processes work on batches of other threads
        std::unique_lock lock(mutex_);
        ended_.wait(lock, [&] {
          return std::any_of(calls_.begin(), calls_.end(),
                             [](int count) { return count < kCallsOfAHelper; });
        });
      }
    }
  } catch (...) {
    for (auto& call : calls) {
      try {
        finish(*call);
      } catch (const Error&) {  // the first error is thrown
      }
    }
    throw;
  }
  return results;
}

}  // namespace manta::data
