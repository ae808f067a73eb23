#include "manta/preprocess/fold_batches.h"

#include <arrow/api.h>

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/data/processors_internal.h"
#include "manta/data/stop_check_internal.h"
#include "manta/data/stream_internal.h"
#include "manta/preprocess/passes_internal.h"

namespace manta {
namespace {

/// Threads that each take the next batch of a stream, and hand on their results in order.
class OrderedFold {
 public:
  OrderedFold(const Dataset& dataset, const internal::OfBatch& of_batch,
              const internal::TakePart& take, int threads)
      : of_batch_(of_batch),
        take_(take),
        most_waiting_(static_cast<size_t>(threads) * 4),
        stream_(dataset.plan(), {}, {.threads = threads, .progress = "fitting"}) {
    std::vector<std::thread> others;
    try {
      for (int i = 1; i < threads; ++i) {
        others.push_back(start_thread("a thread to fit a preprocessor", [this] { work(); }));
      }
    } catch (const Error&) {
      // The result is the same with fewer threads.
    }
    work();
    for (auto& thread : others) thread.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct Part {
    std::any value;
    std::exception_ptr error;
  };

  void work() {
    while (true) {
      int64_t index = 0;
      Part part;
      data::BatchPtr batch;
      {
        std::lock_guard lock(stream_mutex_);
        index = next_index_;
        try {
          auto block = stream_.next();
          if (!block) return;
          batch = std::move(block->batch);
        } catch (...) {
          part.error = std::current_exception();
        }
        ++next_index_;
      }
      if (batch) part = make(batch);
      if (!hand_on(index, std::move(part))) return;
    }
  }

  Part make(const data::BatchPtr& batch) const {
    try {
      preprocess::require_wanted(stopping_ && stopping_());
      return {of_batch_(batch), nullptr};
    } catch (...) {
      return {{}, std::current_exception()};
    }
  }

  // False once there is nothing more to do. A thread that is far ahead waits for the others.
  bool hand_on(int64_t index, Part part) {
    std::unique_lock lock(mutex_);
    waiting_.emplace(index, std::move(part));
    while (!error_ && !waiting_.empty() && waiting_.begin()->first == next_to_take_) {
      Part next = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
      ++next_to_take_;
      take(std::move(next));
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return error_ || waiting_.size() < most_waiting_; });
    return !error_;
  }

  void take(Part part) {
    error_ = part.error;
    if (error_) return;
    try {
      take_(std::move(part.value));
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  const internal::OfBatch& of_batch_;
  const internal::TakePart& take_;
  const size_t most_waiting_;
  const std::function<bool()> stopping_ = data::StopCheck::current();

  std::mutex stream_mutex_;  // of the next two
  data::Stream stream_;
  int64_t next_index_ = 0;

  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::map<int64_t, Part> waiting_;  // made, but not their turn yet
  int64_t next_to_take_ = 0;
  std::exception_ptr error_;
};

}  // namespace

void internal::fold_in_order(const Dataset& dataset, const OfBatch& of_batch, const TakePart& take,
                             int threads) {
  OrderedFold(dataset, of_batch, take, threads > 0 ? threads : data::all_processors());
}

}  // namespace manta
