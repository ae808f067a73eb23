#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/data/group_calls_internal.h"

namespace manta::data {
namespace {

// Fewer rows than that are not worth waking a thread for.
constexpr int64_t kRowsOfATask = 4096;

}  // namespace

GroupCalls::GroupCalls(Call call, Take take, int threads)
    : call_(std::move(call)),
      take_(std::move(take)),
      most_tasks_(2 * static_cast<size_t>(threads)) {
  try {
    for (int i = 0; i < threads; ++i) {
      threads_.push_back(start_thread("a thread to map groups", [this] { work(); }));
    }
  } catch (const Error&) {
    if (threads_.empty()) throw;  // the results are the same with fewer
  }
}

GroupCalls::~GroupCalls() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void GroupCalls::add(std::shared_ptr<arrow::RecordBatch> group) {
  waiting_rows_ += group->num_rows();
  waiting_.push_back(std::move(group));
  if (waiting_rows_ >= kRowsOfATask) submit();
}

void GroupCalls::submit() {
  auto task = std::make_shared<Task>();
  task->groups = std::move(waiting_);
  waiting_.clear();
  waiting_rows_ = 0;
  std::unique_lock lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
  while (tasks_.size() >= most_tasks_) take_front(lock);
}

void GroupCalls::finish() {
  if (!waiting_.empty()) submit();
  std::unique_lock lock(mutex_);
  while (!tasks_.empty()) take_front(lock);
}

void GroupCalls::take_front(std::unique_lock<std::mutex>& lock) {
  auto task = tasks_.front();
  changed_.wait(lock, [&] { return task->done; });
  tasks_.pop_front();
  lock.unlock();
  if (task->error) std::rethrow_exception(task->error);
  for (const auto& result : task->results) take_(result);
  lock.lock();
}

void GroupCalls::work() {
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

void GroupCalls::run(Task& task) const {
  try {
    for (const auto& group : task.groups) {
      auto result = call_(group);
      if (result->num_rows() > 0) task.results.push_back(std::move(result));
    }
  } catch (...) {
    task.error = std::current_exception();
  }
  task.groups.clear();
}

}  // namespace manta::data
