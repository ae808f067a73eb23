#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "manta/data/piece_internal.h"

namespace manta::data {

/// Calls a function with groups of rows on several threads, and takes what it gives in the order of
/// the groups, on the thread that adds them. Small groups travel together.
class GroupCalls {
 public:
  using Call = std::function<std::shared_ptr<arrow::RecordBatch>(
      const std::shared_ptr<arrow::RecordBatch>&)>;
  using Take = std::function<void(const std::shared_ptr<arrow::RecordBatch>&)>;

  /// `take` gets no batch without rows.
  GroupCalls(Call call, Take take, int threads);
  ~GroupCalls();  ///< Gives up what is not done, and joins the threads.

  /// Waits if more than two groups for each thread are there. Throws what a call threw.
  void add(std::shared_ptr<arrow::RecordBatch> group);
  /// Takes the rest.
  void finish();

 private:
  struct Task {
    Batches groups, results;
    std::exception_ptr error;
    bool begun = false, done = false;
  };

  void work();
  void submit();
  void take_front(std::unique_lock<std::mutex>& lock);
  void run(Task& task) const;

  const Call call_;
  const Take take_;
  const size_t most_tasks_;
  Batches waiting_;  // for `add` only
  int64_t waiting_rows_ = 0;
  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Task>> tasks_;  // in order
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace manta::data
