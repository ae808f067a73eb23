#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/callback_thread_internal.h"
#include "manta/core/known_possible_internal.h"
#include "manta/core/messages_internal.h"
#include "manta/core/object_ref.h"
#include "manta/core/remote.h"

namespace manta {

/// How a client reaches the hub: in a worker through its socket, in the driver by calling it.
class HubLink {
 public:
  virtual ~HubLink() = default;
  /// In order. In a worker it returns when the message is in the socket, before the hub has seen
  /// it; in the driver the calling thread takes the hub's lock and acts on the message itself,
  /// unless the hub's thread may as well (see Hub::post). A hub that has stopped drops it; a worker
  /// whose driver has gone ends.
  virtual void send(ToHub&& message) = 0;
  /// Around a wait of the thread that runs tasks: others may use its CPU meanwhile.
  /// True if the calling thread is that one.
  virtual bool begin_wait() { return false; }
  virtual void end_wait() {}
  /// Returns when `over` or when the deadline has passed. `over` is asked with `lock` held, and
  /// changes are announced through `changed`. A link may read its messages meanwhile, on the thread
  /// that waits.
  virtual void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                    Deadline deadline, const std::function<bool()>& over);
};

/// What is known in this process of an object that lives at the hub.
struct Resolution;

/// The core API's view of the run, the same in the driver and in workers. Thread-safe.
class Client : public std::enable_shared_from_this<Client> {
 public:
  /// `most`: of each resource, what the node that has most of it has.
  Client(std::unique_ptr<HubLink> link, uint32_t index, Resources most, NodeId node = 0,
         std::string host = {});
  ~Client();

  /// The process's client. Throws Error(kInvalidArgument) naming `api` if there is none: init was
  /// not called.
  static std::shared_ptr<Client> current(const char* api);
  static std::shared_ptr<Client> current_or_null();
  static void set_current(std::shared_ptr<Client> client);

  ObjectId new_id();
  /// Whoever asks for more is refused by the hub, too, but with less to say.
  std::shared_ptr<const Resources> most() const { return most_.load(); }
  void set_most(Resources most);
  KnownPossible& known_possible() { return known_possible_; }
  NodeId node() const { return node_; }
  const std::string& host() const { return host_; }
  void send(ToHub&& message) { link_->send(std::move(message)); }

  detail::HandlePtr own(ObjectId id);     ///< A hold that the hub already counts.
  detail::HandlePtr borrow(ObjectId id);  ///< A hold that it is told of.

  /// Waits until `count` of the handles are done (with their values if `values`). False when the
  /// deadline has passed.
  bool await(const std::vector<detail::HandlePtr>& handles, size_t count, bool values,
             Deadline deadline);
  /// How the object ended, if that is known here with its value; else null. Constant from then on.
  const Outcome* outcome_of(const detail::HandlePtr& handle);
  /// Calls `done` on the callback thread once the object's value is here, or the hub has gone.
  void notify(const detail::HandlePtr& handle, std::function<void()> done);
  /// Makes the calls that are due and ends their thread.
  void finish_callbacks() { callbacks_.finish(); }
  /// Which of the handles are known to be done.
  std::vector<bool> ready_flags(const std::vector<detail::HandlePtr>& handles) const;
  /// Sends a request that is answered by Answer, and waits for it. Throws the error that it brings.
  template <class Request>
  Answer ask(Request request) {
    return await_answer([&](uint64_t number) {
      request.request = number;
      send(std::move(request));
    });
  }

  void on_object_ready(ObjectReady message);
  void on_answer(Answer message);
  /// The hub has gone: everything that waits fails.
  void on_closed(const std::string& why);

  /// A task that a thread of this process runs. Its waits throw Error(kCancelled) once it is
  /// cancelled.
  struct RunningTask {
    ObjectId id = 0;
    uint32_t depth = 0;
    Function function;
    RuntimeContext context;
    std::atomic<bool> cancelled{false};
  };
  /// The calling thread runs this from now on; null: nothing.
  void set_running(std::shared_ptr<RunningTask> task);
  /// What the calling thread runs. A thread that runs none, e.g. one that a task has started, is
  /// taken for a part of the only task that runs; of several nobody can tell which, and it is none.
  std::shared_ptr<RunningTask> running() const;
  void cancel_running(ObjectId id);

 private:
  friend struct detail::ObjectHandle;
  friend struct Resolution;
  struct Waiter;

  void check_own(const detail::HandlePtr& handle) const;
  Resolution& resolution_of(detail::ObjectHandle& handle, bool values);
  Answer await_answer(const std::function<void(uint64_t)>& send);
  void release(detail::ObjectHandle& handle);
  void ask_for(const std::vector<ObjectId>& ids, bool values);

  std::unique_ptr<HubLink> link_;
  const int forks_;  // of the process that it belongs to; a fork of it must not use it
  const uint64_t first_id_;
  std::atomic<std::shared_ptr<const Resources>> most_;
  KnownPossible known_possible_;
  const NodeId node_;
  const std::string host_;
  std::atomic<uint64_t> next_counter_{1};

  mutable std::mutex mutex_;
  std::unordered_map<ObjectId, std::shared_ptr<Resolution>>
      pending_;  // asked for, not yet answered
  std::unordered_map<uint64_t, Answer> answers_;
  std::condition_variable answered_;
  uint64_t next_request_ = 1;
  std::string closed_;  // why, once the hub has gone
  std::vector<Waiter*> waiters_;
  std::unordered_map<std::thread::id, std::shared_ptr<RunningTask>> running_;
  std::atomic<bool> any_running_{false};
  CallbackThread callbacks_;
};

namespace detail {

struct ObjectHandle {
  ObjectHandle(ObjectId id, std::shared_ptr<Client> client) : id(id), client(std::move(client)) {}
  ~ObjectHandle() { client->release(*this); }

  const ObjectId id;
  const std::shared_ptr<Client> client;
  std::shared_ptr<Resolution>
      resolution;  // guarded by the client's mutex; itself constant once done
};

}  // namespace detail

struct Resolution {
  std::vector<Client::Waiter*> waiters;
  /// To be called once it has a value. Each holds the object meanwhile.
  std::vector<std::function<void()>> callbacks;
  bool ready = false;      // done, one way or the other
  bool has_value = false;  // and `outcome` says how
  bool fetching = false;
  bool watching = false;
  Outcome outcome;
};

/// Throws the error.
[[noreturn]] void throw_error(const ErrorInfo& error);

}  // namespace manta
