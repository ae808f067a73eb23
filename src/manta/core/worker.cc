#include <sched.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <optional>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/call_threads_internal.h"
#include "manta/core/client_internal.h"
#include "manta/core/remote.h"
#include "manta/core/resources_internal.h"
#include "manta/core/worker_internal.h"
#include "manta/io/eager_wait_internal.h"

namespace manta {
namespace {

// A run that is there answers within milliseconds; this only ends processes whose driver is stopped
// or stuck.
constexpr std::chrono::seconds kJoinDeadline{60};
// How long the main thread looks for the next message before it sleeps, even if it usually waits
// for long: being woken takes about as long.
constexpr std::chrono::microseconds kLeastSpin{50};
// A call that takes longer has its channel read by the helper meanwhile.
constexpr std::chrono::milliseconds kHelperTick{2};
// So many ticks without a call, and the helper sleeps until the next one.
constexpr int kHelperIdleTicks = 50;

// How much has been written to the log, which is opened once and inherited by whatever a task
// starts. To ask for the file's size takes twice as long.
off_t log_position() { return ::lseek(1, 0, SEEK_CUR); }

void flush_output() {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
}

[[noreturn]] void leave(int code) {
  flush_output();
  ::_exit(code);
}

// The worker's end of the channel. The main thread runs the calls, one at a time, and reads the
// channel while it has nothing else to do: a message that had to pass from one thread to another
// would take twice as long. While a call runs, a helper thread reads, so that a cancellation or the
// end of the driver is noticed. An actor whose calls run side by side is constructed on the main
// thread, which from then on only reads.
class Worker final : public HubLink {
 public:
  Worker(Channel& channel, std::string name) : channel_(channel), name_(std::move(name)) {}

  void set_client(std::shared_ptr<Client> client) { client_ = std::move(client); }

  [[noreturn]] void run_loop() {
    main_thread_ = std::this_thread::get_id();
    std::thread helper = start_thread("the thread that hears the driver", [this] { help(); });
    Run call;
    while (next_call(&call)) run(call);
    if (CallThreads* threads = call_threads()) {
      ask_for_help();  // they may wait for what somebody must read
      threads->finish();
    }
    instance_.reset();
    leave(0);  // with the helper
  }

  // ---- The client's link

  void send(ToHub&& message) override { say(message); }

  bool begin_wait() override {
    CallThreads* threads = call_threads();
    if (threads && threads->begin_wait()) return true;
    if (!on_main_thread()) return false;
    // An actor's calls stay where they are: they run in order, and only here.
    say(Blocked{instance_ ? std::vector<ObjectId>() : give_back()});
    return true;
  }

  void end_wait() override {
    CallThreads* threads = call_threads();
    if (threads && threads->end_wait()) return;
    if (on_main_thread()) say(Unblocked{});
  }

  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Deadline deadline,
            const std::function<bool()>& over) override {
    while (on_main_thread() && !over() && !deadline.passed() && start_reading()) {
      lock.unlock();
      read(deadline);
      stop_reading();
      lock.lock();
    }
    if (over() || deadline.passed()) return;
    if (!call_threads()) ask_for_help();  // else somebody always reads
    HubLink::wait(lock, changed, deadline, over);
  }

 private:
  void say(const ToHub& message) {
    bool sent = channel_.send([&](OutBuffer& out) {
      std::visit([&](const auto& inner) { encode_message<ToHub>(out, inner); }, message);
    });
    if (!sent) leave(0);  // the driver has gone, and this process goes with it
  }

  bool on_main_thread() const { return std::this_thread::get_id() == main_thread_; }

  // Null unless this is an actor whose calls run side by side, or is about to be one.
  CallThreads* call_threads() {
    std::lock_guard lock(mutex_);
    return call_threads_.get();
  }

  // ---- Reading: one thread at a time

  // Reads and handles at least one message, unless the deadline passes first.
  void read(Deadline deadline) {
    try {
      Frame frame;
      IoStatus status = channel_.try_receive(&frame);
      if (status == IoStatus::kWouldBlock) status = await_frame(&frame, deadline);
      if (status == IoStatus::kClosed) leave(0);  // the driver has gone
      do {
        handle(decode_message<FromHub>(frame));
      } while (channel_.next_buffered(&frame));
    } catch (const std::exception& error) {
      auto* known = dynamic_cast<const Error*>(&error);
      if (known && known->kind() == ErrorKind::kTimeout) return;
      std::fprintf(stderr, "manta: %s ends: %s\n", name_.c_str(), error.what());
      leave(1);
    }
  }

  IoStatus await_frame(Frame* frame, Deadline deadline) {
    auto begin = Clock::now();
    IoStatus status = IoStatus::kWouldBlock;
    auto arrived = [&] { return (status = channel_.try_receive(frame)) != IoStatus::kWouldBlock; };
    // The helper, which reads while a call runs that takes long, does not look. Nobody sleeps in
    // recvmsg(2): see EagerReceiver.
    bool found = on_main_thread() && eager_.look(arrived);
    while (!found) {
      if (!channel_.wait_readable(deadline)) {
        throw Error(ErrorKind::kTimeout, "the driver sent nothing before the deadline");
      }
      found = arrived();
    }
    if (on_main_thread()) eager_.add(Clock::now() - begin);
    return status;
  }

  // For the main thread; false if the helper reads just now.
  bool start_reading() {
    std::lock_guard lock(mutex_);
    if (helper_reads_) return false;
    return main_reads_ = true;
  }
  void stop_reading() {
    std::lock_guard lock(mutex_);
    main_stops();
  }
  // With the lock. Does not wake the helper unless it must: that would cost as much as a short
  // call.
  void main_stops() {
    main_reads_ = false;
    ++times_stopped_;
    if (helper_sleeps_ || help_wanted_) helper_wakes_.notify_one();
  }

  void ask_for_help() {
    std::lock_guard lock(mutex_);
    help_wanted_ = true;
    if (!main_reads_) helper_wakes_.notify_one();
  }

  [[noreturn]] void help() {
    uint64_t seen = 0;
    int idle_ticks = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      if (helper_reads_) {
        lock.unlock();
        read(Deadline::never());
        lock.lock();
        // The main thread has something to do again, and afterwards reads by itself.
        if (main_waits_ && (!calls_.empty() || exit_)) {
          helper_reads_ = false;
          main_wakes_.notify_one();
        }
        continue;
      }
      idle_ticks = main_reads_ && times_stopped_ == seen ? idle_ticks + 1 : 0;
      seen = times_stopped_;
      if (idle_ticks > kHelperIdleTicks) {
        helper_sleeps_ = true;
        helper_wakes_.wait(lock, [&] { return !main_reads_; });
        helper_sleeps_ = false;
        idle_ticks = 0;
        seen = times_stopped_;
      }
      helper_wakes_.wait_for(lock, kHelperTick,
                             [&] { return help_wanted_ && !main_reads_ && !main_waits_; });
      // The same call as a tick ago, or somebody waits for a message that nobody reads.
      if (!main_reads_ && !main_waits_ && (help_wanted_ || times_stopped_ == seen)) {
        helper_reads_ = true;
        help_wanted_ = false;
      }
    }
  }

  // ---- Calls

  bool next_call(Run* call) {
    std::unique_lock lock(mutex_);
    while (calls_.empty() && !exit_) {
      if (helper_reads_) {
        main_waits_ = true;
        main_wakes_.wait(lock, [&] { return !helper_reads_; });
        main_waits_ = false;
      } else {
        main_reads_ = true;
        lock.unlock();
        read(Deadline::never());
        lock.lock();
        main_stops();
      }
    }
    if (calls_.empty()) return false;
    *call = std::move(calls_.front());
    calls_.pop_front();
    running_ = call->spec.id;
    return true;
  }

  // What was sent and has not started. Taken from the main thread's queue, so it never starts here.
  std::vector<ObjectId> give_back() {
    std::lock_guard lock(mutex_);
    std::vector<ObjectId> ids;
    for (const auto& call : calls_) ids.push_back(call.spec.id);
    calls_.clear();
    return ids;
  }

  void handle(FromHub&& message) {
    if (auto* call = std::get_if<Run>(&message)) {
      std::lock_guard lock(mutex_);
      if (call_threads_) {
        call_threads_->add(std::move(*call));
      } else {
        calls_.push_back(std::move(*call));
      }
    } else if (auto* ready = std::get_if<ObjectReady>(&message)) {
      client_->on_object_ready(std::move(*ready));
    } else if (auto* answer = std::get_if<Answer>(&message)) {
      client_->on_answer(std::move(*answer));
    } else if (std::holds_alternative<Recall>(message)) {
      say(Returned{give_back()});
    } else if (auto* cancel = std::get_if<CancelRunning>(&message)) {
      cancel_call(*cancel);
    } else if (std::holds_alternative<Exit>(message)) {
      std::lock_guard lock(mutex_);
      exit_ = true;
    }
  }

  void cancel_call(const CancelRunning& cancel) {
    std::unique_lock lock(mutex_);
    bool waiting =
        call_threads_
            ? call_threads_->remove(cancel.id)
            : std::erase_if(calls_, [&](const Run& call) { return call.spec.id == cancel.id; }) > 0;
    // Only this process knows which call it is at: another than the one meant must not be hit.
    if (cancel.force && running_ == cancel.id) leave(1);
    lock.unlock();
    if (!waiting) return client_->cancel_running(cancel.id);
    TaskDone done;
    done.id = cancel.id;
    done.outcome = Outcome::failed(ErrorKind::kCancelled, "");
    say(done);
  }

  // On the main thread.
  void run(Run& call) {
    prepare(call);
    bool side_by_side = call.spec.kind == TaskKind::kActorCreate && call.spec.max_concurrency > 1;
    if (!side_by_side) return run_here(call);
    try {
      start_call_threads(call.spec.max_concurrency);
    } catch (const Error& error) {
      TaskDone done;
      done.id = call.spec.id;
      done.outcome = Outcome::failed(
          error.kind(), str("actor '", task_name(call.spec), "' cannot start: ", error.what()));
      return say(done);
    }
    run_here(call);
  }

  void start_call_threads(int count) {
    auto run = [this](Run& call) {
      thread_local bool is_new = true;
      if (std::exchange(is_new, false)) set_openmp_threads(threads_);
      run_here(call);
    };
    auto set_waiting = [this](bool waiting) {
      if (waiting) {
        say(Blocked{});
      } else {
        say(Unblocked{});
      }
    };
    auto threads = std::make_unique<CallThreads>(count, run, set_waiting);
    std::lock_guard lock(mutex_);
    call_threads_ = std::move(threads);
  }

  // On the calling thread.
  void run_here(Run& call) {
    auto task = std::make_shared<Client::RunningTask>();
    task->id = call.spec.id;
    task->depth = call.spec.depth;
    task->context = {name_, call.spec.name, call.attempt, call.gpu_ids, {}, 0};
    task->function = call.spec.function;
    client_->set_running(task);
    auto begin = Clock::now();
    TaskDone done;
    done.id = call.spec.id;
    std::shared_ptr<void> keep_alive;
    done.outcome = run_call(call.spec, call.ref_values, &instance_, &keep_alive);
    done.run_nanoseconds = static_cast<uint64_t>((Clock::now() - begin).count());
    client_->set_running(nullptr);
    flush_output();
    {
      // From here on a forced cancel comes too late: once the hub has heard that this call is done,
      // it would take the next one for what this process died of.
      std::lock_guard lock(mutex_);
      running_ = 0;
      off_t position = log_position();
      done.wrote_output = position != std::exchange(log_position_, position);
    }
    // Written before the next call starts: whatever ends this process, the hub knows which call it
    // was.
    say(done);
    call = {};  // also lets go of what the arguments refer to
  }

  void prepare(const Run& call) {
    int threads = std::max(1, static_cast<int>(call.cpus));
    if (threads != threads_) set_thread_count(threads_ = threads);
    // Once: a process is only ever sent calls with the same devices.
    if (gpu_ids_) {
      MANTA_CHECK(*gpu_ids_ == call.gpu_ids, "a process was granted other devices than before");
      return;
    }
    // A device is the i-th of those that the whole node may use.
    auto allowed = visible_gpus().value_or(std::vector<std::string>());
    std::string visible;
    for (int id : call.gpu_ids) {
      auto place = static_cast<size_t>(id);
      visible += (visible.empty() ? "" : ",") +
                 (place < allowed.size() ? allowed[place] : std::to_string(id));
    }
    ::setenv("CUDA_VISIBLE_DEVICES", visible.c_str(), 1);
    gpu_ids_ = call.gpu_ids;
  }

  Channel& channel_;
  const std::string name_;
  std::shared_ptr<Client> client_;
  std::thread::id main_thread_;
  EagerWait eager_{kLeastSpin};  // the main thread's

  std::mutex mutex_;  // guards what follows
  std::deque<Run> calls_;
  bool exit_ = false;
  ObjectId running_ = 0;
  uint64_t times_stopped_ = 0;  // that the main thread has stopped reading
  bool main_reads_ = false;
  bool main_waits_ = false;  // for the helper to read a call
  bool helper_reads_ = false;
  bool helper_sleeps_ = false;
  bool help_wanted_ = false;
  off_t log_position_ = 0;
  std::unique_ptr<CallThreads> call_threads_;  // made once, and then there to the end
  std::condition_variable main_wakes_;
  std::condition_variable helper_wakes_;

  // Written by the main thread alone, before the first call of an actor arrives.
  std::shared_ptr<void> instance_;
  int threads_ = 0;
  std::optional<std::vector<int>> gpu_ids_;
};

// The client sends through the worker, which outlives it.
class WorkerLink final : public HubLink {
 public:
  explicit WorkerLink(HubLink& worker) : worker_(worker) {}
  void send(ToHub&& message) override { worker_.send(std::move(message)); }
  bool begin_wait() override { return worker_.begin_wait(); }
  void end_wait() override { worker_.end_wait(); }
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Deadline deadline,
            const std::function<bool()>& over) override {
    worker_.wait(lock, changed, deadline, over);
  }

 private:
  HubLink& worker_;
};

Welcome join(Channel& channel, const RunAddress& address, ProcessId process) {
  Hello hello{address.token, program_build_id(), process};
  channel.send([&](OutBuffer& out) { encode_message<ToHub>(out, hello); });
  Frame frame;
  // No answer: the driver has gone already.
  if (!channel.receive(&frame, Deadline::after(kJoinDeadline))) leave(0);
  FromHub answer = decode_message<FromHub>(frame);
  if (auto* welcome = std::get_if<Welcome>(&answer)) return *welcome;
  if (auto* rejected = std::get_if<Rejected>(&answer)) {
    throw Error(ErrorKind::kInvalidArgument, rejected->why);
  }
  throw Error(ErrorKind::kCorrupt, "the driver answered with something that is no greeting");
}

}  // namespace

void run_worker(const RunAddress& address, ProcessId process, const std::string& name) {
  try {
    Channel channel(connect_unix(address.socket_path));
    Welcome welcome = join(channel, address, process);
    Worker worker(channel, name);
    auto client = std::make_shared<Client>(std::make_unique<WorkerLink>(worker), welcome.index,
                                           welcome.most, welcome.node, welcome.host);
    worker.set_client(client);
    Client::set_current(client);
    worker.run_loop();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "manta: %s cannot join its run: %s\n", name.c_str(), error.what());
    leave(1);
  }
}

}  // namespace manta
