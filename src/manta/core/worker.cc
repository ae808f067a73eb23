#include <arrow/util/thread_pool.h>
#include <dlfcn.h>
#include <sys/stat.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <thread>
#include <typeinfo>

#include "manta/core/client_internal.h"
#include "manta/core/remote.h"
#include "manta/core/worker_internal.h"

namespace manta {
namespace {

// A run that is there answers within milliseconds; this only ends processes whose driver is stopped
// or stuck.
constexpr std::chrono::seconds kJoinDeadline{60};

off_t log_size() {
  struct stat info {};
  return ::fstat(1, &info) == 0 ? info.st_size : 0;
}

void flush_output() {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
}

[[noreturn]] void leave(int code) {
  flush_output();
  ::_exit(code);
}

// The worker's end of the channel. One thread reads it; the main thread runs the calls, one at a
// time.
class Worker {
 public:
  Worker(Channel& channel, std::string name) : channel_(channel), name_(std::move(name)) {}

  void say(const ToHub& message) {
    bool sent = channel_.send([&](OutBuffer& out) {
      std::visit([&](const auto& inner) { encode_message<ToHub>(out, inner); }, message);
    });
    if (!sent) leave(0);  // the driver has gone, and this process goes with it
  }

  void read_loop() {
    try {
      Frame frame;
      while (channel_.receive(&frame, Deadline::never())) handle(decode_message<FromHub>(frame));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "manta: %s ends: %s\n", name_.c_str(), error.what());
      leave(1);
    }
    leave(0);
  }

  [[noreturn]] void run_loop() {
    main_thread_ = std::this_thread::get_id();
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !calls_.empty() || exit_; });
      if (calls_.empty()) break;
      Run call = std::move(calls_.front());
      calls_.pop_front();
      lock.unlock();
      run(call);
    }
    instance_.reset();
    leave(0);
  }

  // What was sent and has not started. Taken from the main thread's queue, so it never starts here.
  std::vector<ObjectId> give_back() {
    std::lock_guard lock(mutex_);
    std::vector<ObjectId> ids;
    for (const auto& call : calls_) ids.push_back(call.spec.id);
    calls_.clear();
    return ids;
  }

  bool is_actor() const { return instance_ != nullptr; }
  bool on_main_thread() const { return std::this_thread::get_id() == main_thread_; }

 private:
  void handle(FromHub message) {
    if (auto* call = std::get_if<Run>(&message)) {
      std::lock_guard lock(mutex_);
      calls_.push_back(std::move(*call));
      changed_.notify_one();
    } else if (auto* ready = std::get_if<ObjectReady>(&message)) {
      Client::current("worker")->on_object_ready(std::move(*ready));
    } else if (auto* answer = std::get_if<Answer>(&message)) {
      Client::current("worker")->on_answer(std::move(*answer));
    } else if (std::holds_alternative<Recall>(message)) {
      say(Returned{give_back()});
    } else if (auto* cancel = std::get_if<CancelRunning>(&message)) {
      cancel_call(cancel->id);
    } else if (std::holds_alternative<Exit>(message)) {
      std::lock_guard lock(mutex_);
      exit_ = true;
      changed_.notify_one();
    }
  }

  void cancel_call(ObjectId id) {
    std::unique_lock lock(mutex_);
    bool waiting = std::erase_if(calls_, [&](const Run& call) { return call.spec.id == id; }) > 0;
    lock.unlock();
    if (!waiting) return Client::current("worker")->cancel_running(id);
    TaskDone done;
    done.id = id;
    done.outcome = Outcome::failed(ErrorKind::kCancelled, "");
    say(done);
  }

  void run(Run& call) {
    auto client = Client::current("worker");
    auto task = std::make_shared<Client::RunningTask>();
    task->id = call.spec.id;
    task->depth = call.spec.depth;
    task->context = {name_, call.spec.name, call.attempt, call.gpu_ids};
    prepare(call);
    client->set_running(task);
    auto begin = Clock::now();
    TaskDone done;
    done.id = call.spec.id;
    done.outcome = run_call(call.spec, call.ref_values, &instance_);
    done.run_nanoseconds = static_cast<uint64_t>((Clock::now() - begin).count());
    client->set_running(nullptr);
    flush_output();
    off_t size = log_size();
    done.wrote_output = size != log_size_;
    log_size_ = size;
    // Written before the next call starts: whatever ends this process, the hub knows which call it
    // was.
    say(done);
  }

  void prepare(const Run& call) {
    int threads = std::max(1, static_cast<int>(call.cpus));
    if (threads != threads_) set_thread_count(threads_ = threads);
    if (call.gpu_ids == gpu_ids_ && gpus_set_) return;
    std::string visible;
    for (int id : call.gpu_ids) visible += (visible.empty() ? "" : ",") + std::to_string(id);
    ::setenv("CUDA_VISIBLE_DEVICES", visible.c_str(), 1);
    gpu_ids_ = call.gpu_ids;
    gpus_set_ = true;
  }

  Channel& channel_;
  const std::string name_;
  std::thread::id main_thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Run> calls_;
  bool exit_ = false;
  std::shared_ptr<void> instance_;
  off_t log_size_ = 0;
  int threads_ = 0;
  bool gpus_set_ = false;
  std::vector<int> gpu_ids_;
};

class SocketLink : public HubLink {
 public:
  explicit SocketLink(Worker& worker) : worker_(worker) {}
  void send(ToHub message) override { worker_.say(message); }
  void begin_wait() override {
    // An actor's calls stay where they are: they run in order, and only here.
    if (worker_.on_main_thread())
      worker_.say(Blocked{worker_.is_actor() ? std::vector<ObjectId>() : worker_.give_back()});
  }
  void end_wait() override {
    if (worker_.on_main_thread()) worker_.say(Unblocked{});
  }

 private:
  Worker& worker_;
};

Welcome join(Channel& channel, const RunAddress& address, ProcessId process) {
  Hello hello{address.token, program_build_id(), process};
  channel.send([&](OutBuffer& out) { encode_message<ToHub>(out, hello); });
  Frame frame;
  if (!channel.receive(&frame, Deadline::after(kJoinDeadline)))
    leave(0);  // the driver has gone already
  FromHub answer = decode_message<FromHub>(frame);
  if (auto* welcome = std::get_if<Welcome>(&answer)) return *welcome;
  if (auto* rejected = std::get_if<Rejected>(&answer))
    throw Error(ErrorKind::kInvalidArgument, rejected->why);
  throw Error(ErrorKind::kCorrupt, "the driver answered with something that is no greeting");
}

}  // namespace

void set_thread_count(int threads) {
  ::setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  using SetThreads = void (*)(int);
  if (auto set = reinterpret_cast<SetThreads>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads")))
    set(threads);
  (void)arrow::SetCpuThreadPoolCapacity(threads);
}

Outcome run_call(const TaskSpec& spec, const std::vector<Value>& ref_values,
                 std::shared_ptr<void>* instance) {
  // On failure only: it may have to read the program's symbols.
  auto what = [&] {
    if (spec.kind == TaskKind::kActorCreate)
      return "the constructor of actor '" + task_name(spec) + "'";
    return (spec.kind == TaskKind::kActorCall ? "call '" : "task '") + task_name(spec) + "'";
  };
  try {
    auto [thunk, target] = resolve_function(spec.function);
    Invocation call;
    call.target = target;
    call.args = &spec.args;
    call.ref_args = &spec.ref_args;
    call.ref_values = &ref_values;
    call.instance = instance;
    thunk(call);
    Outcome outcome;
    outcome.ok = true;
    outcome.value = std::move(call.result);
    return outcome;
  } catch (const Error& error) {
    return Outcome::failed(error.kind(), str(what(), " failed: ", error.what()));
  } catch (const std::exception& error) {
    return Outcome::failed(
        ErrorKind::kUserCode,
        str(what(), " threw ", demangle(typeid(error).name()), ": ", error.what()));
  } catch (...) {
    return Outcome::failed(ErrorKind::kUserCode,
                           str(what(), " threw something that is no std::exception"));
  }
}

void run_worker(const RunAddress& address, ProcessId process, const std::string& name) {
  try {
    Channel channel(connect_unix(address.socket_path));
    Welcome welcome = join(channel, address, process);
    Worker worker(channel, name);
    Client::set_current(std::make_shared<Client>(std::make_unique<SocketLink>(worker),
                                                 welcome.index, welcome.total));
    std::thread reader([&] { worker.read_loop(); });
    worker.run_loop();  // leaves the process, with the reader
  } catch (const std::exception& error) {
    std::fprintf(stderr, "manta: %s cannot join its run: %s\n", name.c_str(), error.what());
    leave(1);
  }
}

}  // namespace manta
