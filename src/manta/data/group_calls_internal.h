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

#include "manta/base/error.h"
#include "manta/base/start_thread_internal.h"
#include "manta/data/piece_internal.h"
#include "manta/data/work_count_internal.h"

namespace manta::data {

/// Calls a function with groups of rows on several threads, and takes the results in the order of
/// the groups, on the thread that adds them. Small groups form one task until they have
/// `rows_of_a_task` rows: waking a thread for fewer does not pay.
template <class Result>
class GroupCalls {
 public:
  using Call = std::function<Result(const std::shared_ptr<arrow::RecordBatch>&)>;
  using Take = std::function<void(Result)>;

  /// `done` grows with each call.
  GroupCalls(Call call, Take take, int threads, WorkCountPtr done, int64_t rows_of_a_task = 4096)
      : call_(std::move(call)),
        take_(std::move(take)),
        done_(std::move(done)),
        most_tasks_(2 * static_cast<size_t>(threads)),
        rows_of_a_task_(rows_of_a_task) {
    try {
      for (int i = 0; i < threads; ++i) {
        threads_.push_back(start_thread("a thread to map groups", [this] { work(); }));
      }
    } catch (const Error&) {
      if (threads_.empty()) throw;  // the results are the same with fewer
    }
  }
  /// Drops tasks that are not done, and joins the threads.
  ~GroupCalls() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  /// Waits while there are more than two tasks for each thread. Throws what a call threw.
  void add(std::shared_ptr<arrow::RecordBatch> group) {
    waiting_rows_ += group->num_rows();
    waiting_.push_back(std::move(group));
    if (waiting_rows_ >= rows_of_a_task_) submit();
  }
  /// Takes the remaining results.
  void finish() {
    if (!waiting_.empty()) submit();
    std::unique_lock lock(mutex_);
    while (!tasks_.empty()) take_front(lock);
  }

 private:
  struct Task {
    Batches groups;
    std::vector<Result> results;
    std::exception_ptr error;
    bool begun = false, done = false;
  };

  void submit() {
    auto task = std::make_shared<Task>();
    task->groups = std::move(waiting_);
    waiting_.clear();
    waiting_rows_ = 0;
    std::unique_lock lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
    while (tasks_.size() >= most_tasks_) take_front(lock);
  }

  void take_front(std::unique_lock<std::mutex>& lock) {
    auto task = tasks_.front();
    changed_.wait(lock, [&] { return task->done; });
    tasks_.pop_front();
    lock.unlock();
    if (task->error) std::rethrow_exception(task->error);
    for (auto& result : task->results) take_(std::move(result));
    lock.lock();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      std::shared_ptr<Task> next;
      changed_.wait(lock, [&] {
        for (const auto& task : tasks_) {
          if (task->begun) continue;
          next = task;
          break;
        }
        return stopping_ || next;
      });
      if (stopping_) return;
      next->begun = true;
      lock.unlock();
      run(*next);
      lock.lock();
      next->done = true;
      changed_.notify_all();
    }
  }

  void run(Task& task) const {
    try {
      for (const auto& group : task.groups) {
        task.results.push_back(call_(group));
        count_work(done_);
      }
    } catch (...) {
      task.error = std::current_exception();
    }
    task.groups.clear();
  }

  const Call call_;
  const Take take_;
  const WorkCountPtr done_;
  const size_t most_tasks_;
  const int64_t rows_of_a_task_;
  Batches waiting_;  // for `add` only
  int64_t waiting_rows_ = 0;
  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Task>> tasks_;  // in order
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace manta::data
