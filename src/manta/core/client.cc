#include <pthread.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/client_internal.h"

namespace manta {
namespace {

// Of objects in one message: whoever asks for a million does not keep the hub from the others.
constexpr size_t kMostAsked = 1000;

// How often the process was forked, from its first ancestor on. Asking the system for the process's
// number would take as long as the rest of a submission.
std::atomic<int> forks{0};
void count_forks() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++forks; });
  (void)registered;
}

std::mutex current_mutex;
std::shared_ptr<Client>& current_client() {
  static auto* client = new std::shared_ptr<Client>;
  return *client;
}

}  // namespace

struct Client::Waiter {
  std::condition_variable changed;
  size_t needed = 0;
  bool values = false;
  RunningTask* task = nullptr;  // of the thread that waits, if it runs one

  bool is_done(const Resolution& resolution) const {
    return values ? resolution.has_value : resolution.ready;
  }
};

void HubLink::wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                   Deadline deadline, const std::function<bool()>& over) {
  if (deadline.is_never()) {
    changed.wait(lock, over);
  } else {
    changed.wait_until(lock, deadline.at(), over);
  }
}

void throw_error(const ErrorInfo& error) { throw Error(error.kind, error.message); }

Client::Client(std::unique_ptr<HubLink> link, uint32_t index, Resources most, NodeId node,
               std::string host)
    : link_(std::move(link)),
      forks_((count_forks(), forks.load())),
      first_id_(static_cast<uint64_t>(index) << kObjectCounterBits),
      most_(std::make_shared<const Resources>(std::move(most))),
      node_(node),
      host_(std::move(host)) {}

Client::~Client() = default;

std::shared_ptr<Client> Client::current_or_null() {
  std::lock_guard lock(current_mutex);
  return current_client();
}

std::shared_ptr<Client> Client::current(const char* api) {
  auto client = current_or_null();
  if (client && client->forks_ != forks) {
    throw Error(ErrorKind::kInvalidArgument,
                str("manta::", api,
                    " was called in a process that the driver forked: call manta::init after "
                    "fork() or daemon(), or start such processes with exec"));
  }
  if (!client) {
    throw Error(ErrorKind::kInvalidArgument,
                str("manta::", api,
                    " was called without a running Manta: make manta::init(argc, argv) the first "
                    "line of main, and do "
                    "not use Manta after manta::shutdown()"));
  }
  return client;
}

void Client::set_current(std::shared_ptr<Client> client) {
  std::lock_guard lock(current_mutex);
  current_client() = std::move(client);
}

void Client::set_most(Resources most) {
  most_.store(std::make_shared<const Resources>(std::move(most)));
  known_possible_.forget();
}

ObjectId Client::new_id() {
  return first_id_ | next_counter_.fetch_add(1, std::memory_order_relaxed);
}

detail::HandlePtr Client::own(ObjectId id) {
  return std::make_shared<detail::ObjectHandle>(id, shared_from_this());
}

detail::HandlePtr Client::borrow(ObjectId id) {
  send(AddRef{id});
  return own(id);
}

void Client::release(detail::ObjectHandle& handle) {
  // An answer that nobody waits for any more would keep its entry for ever. What only the handle
  // holds has no entry, and gets none any more.
  if (handle.resolution && handle.resolution.use_count() > 1) {
    std::lock_guard lock(mutex_);
    if (handle.resolution.use_count() == 2) {
      auto found = pending_.find(handle.id);
      if (found != pending_.end() && found->second == handle.resolution) pending_.erase(found);
    }
  }
  send(Release{handle.id});
}

void Client::check_own(const detail::HandlePtr& handle) const {
  if (!handle) {
    throw Error(ErrorKind::kInvalidArgument, "an empty ObjectRef has no value to wait for");
  }
  if (handle->client.get() != this) {
    throw Error(ErrorKind::kInvalidArgument,
                "an ObjectRef of a Manta that was shut down has no value any more");
  }
}

// What is known of its object. Another handle of the same object may have asked already; its answer
// is for both.
Resolution& Client::resolution_of(detail::ObjectHandle& handle, bool values) {
  auto& resolution = handle.resolution;
  if (!resolution || !(values ? resolution->has_value : resolution->ready)) {
    auto found = pending_.find(handle.id);
    if (found != pending_.end()) resolution = found->second;
  }
  if (!resolution) resolution = std::make_shared<Resolution>();
  return *resolution;
}

void Client::notify(const detail::HandlePtr& handle, std::function<void()> done) {
  check_own(handle);
  callbacks_.start();
  bool ask = false;
  {
    std::lock_guard lock(mutex_);
    Resolution& resolution = resolution_of(*handle, true);
    if (resolution.has_value || !closed_.empty()) return callbacks_.add(std::move(done));
    resolution.callbacks.push_back([handle, done = std::move(done)] { done(); });
    ask = !std::exchange(resolution.fetching, true);
    pending_[handle->id] = handle->resolution;
  }
  if (ask) send(Fetch{{handle->id}});
}

const Outcome* Client::outcome_of(const detail::HandlePtr& handle) {
  check_own(handle);
  std::lock_guard lock(mutex_);
  const auto& resolution = handle->resolution;
  return resolution && resolution->has_value ? &resolution->outcome : nullptr;
}

void Client::ask_for(const std::vector<ObjectId>& ids, bool values) {
  for (size_t at = 0; at < ids.size(); at += kMostAsked) {
    auto begin = ids.begin() + static_cast<std::ptrdiff_t>(at);
    auto end = begin + static_cast<std::ptrdiff_t>(std::min(kMostAsked, ids.size() - at));
    if (values) {
      send(Fetch{{begin, end}});
    } else {
      send(Watch{{begin, end}});
    }
  }
}

bool Client::await(const std::vector<detail::HandlePtr>& handles, size_t count, bool values,
                   Deadline deadline) {
  for (const auto& handle : handles) check_own(handle);
  Waiter waiter;
  waiter.values = values;
  std::vector<ObjectId> to_ask;
  std::vector<std::shared_ptr<Resolution>> open;
  auto running = this->running();
  std::unique_lock lock(mutex_);
  size_t done = 0;
  for (const auto& handle : handles) {
    Resolution& resolution = resolution_of(*handle, values);
    if (waiter.is_done(resolution)) {
      ++done;
      continue;
    }
    bool& asked = values ? resolution.fetching : resolution.watching;
    if (!asked) {
      asked = true;
      pending_[handle->id] = handle->resolution;
      to_ask.push_back(handle->id);
    }
    resolution.waiters.push_back(&waiter);
    open.push_back(handle->resolution);
  }
  auto leave = [&] {
    for (const auto& resolution : open) std::erase(resolution->waiters, &waiter);
    std::erase(waiters_, &waiter);
  };
  waiters_.push_back(&waiter);
  if (done >= count) {
    leave();
    lock.unlock();
    ask_for(to_ask, values);
    return true;
  }
  waiter.needed = count - done;
  lock.unlock();
  ask_for(to_ask, values);
  // A cancelled task's wait ends; those of threads that it left behind do not.
  bool runs_task = link_->begin_wait();
  lock.lock();
  if (runs_task) waiter.task = running.get();
  auto over = [&] {
    return waiter.needed == 0 || !closed_.empty() || (waiter.task && waiter.task->cancelled);
  };
  link_->wait(lock, waiter.changed, deadline, over);
  leave();
  bool complete = waiter.needed == 0;
  std::string closed = closed_;
  lock.unlock();
  link_->end_wait();
  if (complete) return true;
  if (!closed.empty()) throw Error(ErrorKind::kWorkerLost, closed);
  if (waiter.task && waiter.task->cancelled) {
    throw Error(ErrorKind::kCancelled, "the task that waits here was cancelled");
  }
  return false;
}

void Client::on_object_ready(ObjectReady message) {
  std::lock_guard lock(mutex_);
  auto found = pending_.find(message.id);
  if (found == pending_.end()) return;
  Resolution& resolution = *found->second;
  resolution.ready = true;
  if (message.with_outcome) {
    resolution.outcome = std::move(message.outcome);
    resolution.has_value = true;
    for (auto& callback : std::exchange(resolution.callbacks, {})) {
      callbacks_.add(std::move(callback));
    }
  }
  std::erase_if(resolution.waiters, [&](Waiter* waiter) {
    if (!waiter->is_done(resolution)) return false;
    if (waiter->needed > 0 && --waiter->needed == 0) waiter->changed.notify_one();
    return true;
  });
  if (resolution.has_value || !resolution.fetching) pending_.erase(found);
}

std::vector<bool> Client::ready_flags(const std::vector<detail::HandlePtr>& handles) const {
  std::lock_guard lock(mutex_);
  std::vector<bool> flags;
  for (const auto& handle : handles)
    flags.push_back(handle->resolution && handle->resolution->ready);
  return flags;
}

Answer Client::await_answer(const std::function<void(uint64_t)>& send) {
  std::unique_lock lock(mutex_);
  uint64_t request = next_request_++;
  lock.unlock();
  send(request);
  lock.lock();
  // The hub answers at once or is gone.
  link_->wait(lock, answered_, Deadline::never(),
              [&] { return answers_.contains(request) || !closed_.empty(); });
  if (!answers_.contains(request)) throw Error(ErrorKind::kWorkerLost, closed_);
  Answer answer = std::move(answers_.at(request));
  answers_.erase(request);
  lock.unlock();
  if (!answer.outcome.ok) throw_error(answer.outcome.error);
  return answer;
}

void Client::on_answer(Answer message) {
  std::lock_guard lock(mutex_);
  uint64_t request = message.request;
  answers_[request] = std::move(message);
  answered_.notify_all();
}

void Client::on_closed(const std::string& why) {
  std::lock_guard lock(mutex_);
  closed_ = why;
  answered_.notify_all();
  for (Waiter* waiter : waiters_) waiter->changed.notify_one();
  for (auto& [id, resolution] : pending_) {
    for (auto& callback : std::exchange(resolution->callbacks, {})) {
      callbacks_.add(std::move(callback));
    }
  }
}

void Client::set_running(std::shared_ptr<RunningTask> task) {
  std::lock_guard lock(mutex_);
  if (task) {
    running_[std::this_thread::get_id()] = std::move(task);
  } else {
    running_.erase(std::this_thread::get_id());
  }
  any_running_ = !running_.empty();
}

std::shared_ptr<Client::RunningTask> Client::running() const {
  if (!any_running_) return nullptr;
  std::lock_guard lock(mutex_);
  auto found = running_.find(std::this_thread::get_id());
  if (found != running_.end()) return found->second;
  return running_.size() == 1 ? running_.begin()->second : nullptr;
}

void Client::cancel_running(ObjectId id) {
  std::lock_guard lock(mutex_);
  for (const auto& [thread, task] : running_) {
    if (task->id != id) continue;
    task->cancelled = true;
    for (Waiter* waiter : waiters_) {
      if (waiter->task == task.get()) waiter->changed.notify_one();
    }
  }
}

}  // namespace manta
