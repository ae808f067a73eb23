#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/core/value.h"

namespace manta {

namespace detail {

/// One process's hold on an object. The object is freed with the last hold in any process.
struct ObjectHandle;
using HandlePtr = std::shared_ptr<ObjectHandle>;

ObjectId handle_id(const ObjectHandle& handle);
/// Its id, to be sent. Throws Error(kInvalidArgument) if `what` is empty, or belongs to a run that
/// has ended.
ObjectId live_id(const HandlePtr& handle, const char* what);
/// A new hold on an object whose id arrived inside a value.
HandlePtr borrow_object(ObjectId id);
HandlePtr put_value(Value value);
/// Waits for the value. Throws the error that made it fail, or Error(kTimeout) with what it waits
/// for.
const Value& await_value(const HandlePtr& handle, Deadline deadline);
/// Waits for all at once; afterwards each `await_value` returns at once.
void await_values(const std::vector<HandlePtr>& handles, Deadline deadline);
/// Waits until `num_ready` are done, or until the deadline; returns which are.
std::vector<bool> await_ready(const std::vector<HandlePtr>& handles, size_t num_ready,
                              Deadline deadline);
void notify_when_ready(const HandlePtr& handle, std::function<void()> done);
void cancel_task(const HandlePtr& handle, bool force);
std::string why_waits(const HandlePtr& handle);
void save_handle(OutArchive& archive, const HandlePtr& handle);
HandlePtr load_handle(InArchive& archive);

}  // namespace detail

/// A value that exists or will exist: the result of a task or an actor's call, or what was `put`.
/// Cheap to copy; may be passed to tasks, returned from them and kept in structures. The value
/// lives as long as any reference to it.
template <class T>
class ObjectRef {
 public:
  ObjectRef() = default;
  explicit ObjectRef(detail::HandlePtr handle) : handle_(std::move(handle)) {}

  /// Waits for the value and returns a copy of it (for Arrow data: a view of the shared pages).
  /// Throws Error: of kind kTimeout once `timeout` has passed, kWorkerLost if its process died and
  /// no retries are left, kCancelled if it was cancelled; otherwise what the task threw, with its
  /// message.
  T get(std::chrono::nanoseconds timeout = kForever) const {
    const internal::Value& value = detail::await_value(handle_, internal::Deadline::after(timeout));
    if constexpr (!std::is_void_v<T>) return internal::from_value<T>(value);
  }

  internal::ObjectId id() const { return handle_ ? detail::handle_id(*handle_) : 0; }
  explicit operator bool() const { return handle_ != nullptr; }
  const detail::HandlePtr& handle() const { return handle_; }

  void CEREAL_SAVE_FUNCTION_NAME(internal::OutArchive& archive) const {
    detail::save_handle(archive, handle_);
  }
  void CEREAL_LOAD_FUNCTION_NAME(internal::InArchive& archive) {
    handle_ = detail::load_handle(archive);
  }

 private:
  detail::HandlePtr handle_;
};

/// Stores a value for tasks to share. A value over 100 KB is written to shared memory, once.
template <class T>
ObjectRef<std::decay_t<T>> put(const T& value) {
  if constexpr (std::is_same_v<std::decay_t<T>, const char*> ||
                std::is_same_v<std::decay_t<T>, char*>) {
    static_assert(!sizeof(T), "manta: put a std::string instead of a character array");
  }
  return ObjectRef<std::decay_t<T>>(detail::put_value(internal::to_value<std::decay_t<T>>(value)));
}

/// See ObjectRef::get.
template <class T>
T get(const ObjectRef<T>& ref, std::chrono::nanoseconds timeout = kForever) {
  return ref.get(timeout);
}

/// The values in order, requested all at once. Throws the error of the first reference that failed.
template <class T>
auto get(const std::vector<ObjectRef<T>>& refs, std::chrono::nanoseconds timeout = kForever) {
  internal::Deadline deadline = internal::Deadline::after(timeout);
  std::vector<detail::HandlePtr> handles;
  for (const auto& ref : refs) handles.push_back(ref.handle());
  detail::await_values(handles, deadline);
  if constexpr (std::is_void_v<T>) {
    for (const auto& handle : handles) detail::await_value(handle, deadline);
  } else {
    std::vector<T> values;
    values.reserve(refs.size());
    for (const auto& handle : handles)
      values.push_back(internal::from_value<T>(detail::await_value(handle, deadline)));
    return values;
  }
}

/// `get({a, b})`.
template <class T>
auto get(std::initializer_list<ObjectRef<T>> refs, std::chrono::nanoseconds timeout = kForever) {
  return get(std::vector<ObjectRef<T>>(refs), timeout);
}

template <class T>
struct WaitResult {
  std::vector<ObjectRef<T>>
      ready;  ///< Done or failed; in the order given. May be more than asked for.
  std::vector<ObjectRef<T>> not_ready;  ///< The rest.
};

/// Waits until `num_ready` of the references are done or `timeout` has passed, whichever comes
/// first. Never throws because a task failed: `get` of its reference does.
template <class T>
WaitResult<T> wait(const std::vector<ObjectRef<T>>& refs, size_t num_ready = 1,
                   std::chrono::nanoseconds timeout = kForever) {
  std::vector<detail::HandlePtr> handles;
  for (const auto& ref : refs) handles.push_back(ref.handle());
  auto done = detail::await_ready(handles, num_ready, internal::Deadline::after(timeout));
  WaitResult<T> result;
  for (size_t i = 0; i < refs.size(); ++i)
    (done[i] ? result.ready : result.not_ready).push_back(refs[i]);
  return result;
}

/// `wait({a, b}, 1)`.
template <class T>
WaitResult<T> wait(std::initializer_list<ObjectRef<T>> refs, size_t num_ready = 1,
                   std::chrono::nanoseconds timeout = kForever) {
  return wait(std::vector<ObjectRef<T>>(refs), num_ready, timeout);
}

/// For programs with an event loop: calls `done` once, when the value is there or has failed, so
/// that `get` does not wait. If Manta is shut down first, `done` is called, too, and `get` throws.
/// One thread of Manta makes all these calls, one after the other, in the order in which values
/// arrive. So `done` should be short, and must not wait for other results or call shutdown().
template <class T>
void on_ready(const ObjectRef<T>& ref, std::function<void()> done) {
  detail::notify_when_ready(ref.handle(), std::move(done));
}

struct CancelOptions {
  bool force =
      false;  ///< Kill the process if the task runs. Default: `is_cancelled()` becomes true.
};

/// Stops a task, and the tasks that it started, if they are not done. A task that still waits never
/// starts. `get` of its reference throws Error(kCancelled) at once. In a running task
/// `is_cancelled()` becomes true, and its waits throw. A call of an actor is cancelled only if it
/// has not started.
template <class T>
void cancel(const ObjectRef<T>& ref, CancelOptions options = {}) {
  detail::cancel_task(ref.handle(), options.force);
}

/// One sentence that says why the value is not there yet, such as "task 'fit' waits for 4 CPU (1 of
/// 4 free); held by task 'load' (3 CPU)"; or that it is there.
template <class T>
std::string why_waits(const ObjectRef<T>& ref) {
  return detail::why_waits(ref.handle());
}

}  // namespace manta
