#include "manta/core/init.h"

#include <arrow/compute/initialize.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>
#include <system_error>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/log.h"
#include "manta/base/random_token_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/cluster_engine_internal.h"
#include "manta/core/crash_internal.h"
#include "manta/core/detached.h"
#include "manta/core/hub_internal.h"
#include "manta/core/local_engine_internal.h"
#include "manta/core/node.h"
#include "manta/core/resources_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/core/worker_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/io/eager_wait_internal.h"

namespace manta {
namespace {

constexpr const char* kClusterVariable = "MANTA_CLUSTER";

// The command line takes precedence over the program.
std::string cluster_of(const InitOptions& options) {
  const char* variable = std::getenv(kClusterVariable);
  return found_cluster(variable ? variable : options.cluster);
}

class DriverLink : public HubLink {
 public:
  explicit DriverLink(std::shared_ptr<Hub> hub) : hub_(std::move(hub)) {}
  void send(ToHub&& message) override { hub_->post(std::move(message)); }
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Deadline deadline,
            const std::function<bool()>& over) override {
    if (over()) return;
    thread_local EagerWait eager;
    auto begin = Clock::now();
    bool may_have_turn = eager.is_short();
    bool has_turn = false;
    auto done = [&] {
      if (std::exchange(may_have_turn, false)) has_turn = hub_->begin_turn();
      if (has_turn && !hub_->take_turn()) {
        has_turn = false;
        hub_->end_turn(/*others_follow=*/false);
      }
      lock.lock();
      if (over() || deadline.passed()) return true;
      lock.unlock();
      return false;
    };
    lock.unlock();
    // One thread at a time: more would keep the hub from answering any of them.
    bool found = !looking_.exchange(true);
    if (found) {
      found = eager.look(done);
      if (has_turn) hub_->end_turn(found);
      looking_ = false;
    }
    if (!found) {
      lock.lock();
      HubLink::wait(lock, changed, deadline, over);
    }
    eager.add(Clock::now() - begin);
  }

 private:
  std::shared_ptr<Hub> hub_;
  std::atomic<bool> looking_{false};
};

/// The driver's side of a run.
struct Runtime {
  explicit Runtime(const InitOptions& options, std::vector<std::string> argv)
      : folder(options.temporary_folder, SessionFolder::kNotYet) {
    HubOptions hub_options;
    hub_options.session_folder = folder.path();
    hub_options.log_folder = options.log_folder.empty()
                                 ? folder.path() + "/logs"
                                 : std::filesystem::absolute(options.log_folder).string();
    hub_options.address = {folder.path() + "/hub.sock", random_token()};
    hub_options.log_to_driver = options.log_to_driver;
    hub_options.fold_repeated_lines = options.fold_repeated_lines;
    hub_options.actor_grace = options.actor_grace;
    NodeInfo node;
    node.host = host_name();
    std::string cluster_text = cluster_of(options);
    auto cluster_options = ClusterOptions::parse(cluster_text);
    MachineResources resources = options.resources;
    if (cluster_options.driver_cpus) resources.cpus = cluster_options.driver_cpus;
    if (!driver_is_of_cluster(cluster_options)) {
      if (!resources.cpus) resources.cpus = 0;
      if (!resources.gpus) resources.gpus = 0;
      if (!resources.memory) resources.memory = 0;
    }
    node.total = detect_resources(resources);
    check_labels(options.labels, "InitOptions::labels");
    node.labels = options.labels;
    LocalEngineOptions local{node, hub_options.address, folder.path(), std::move(argv)};
    local.zygote = std::make_shared<ZygoteProcess>(local.for_zygote());
    folder.make();
    std::error_code error;
    std::filesystem::create_directories(hub_options.log_folder, error);
    if (error) {
      throw Error(ErrorKind::kIo,
                  str("making the log folder '", hub_options.log_folder, "': ", error.message()));
    }
    ClusterEngine* cluster = nullptr;
    if (cluster_text.empty()) {
      hub_options.make_engine = [local](EventLoop& loop, EngineEvents& events) {
        return std::make_unique<LocalEngine>(loop, local, events);
      };
    } else {
      ClusterEngineOptions engine{local, cluster_options, options.log_to_driver,
                                  options.fold_repeated_lines};
      hub_options.make_engine = [engine, &cluster](EventLoop& loop, EngineEvents& events) {
        auto made = std::make_unique<ClusterEngine>(loop, engine, events);
        cluster = made.get();
        return made;
      };
    }
    hub = std::make_shared<Hub>(std::move(hub_options));
    if (cluster) cluster->await_nodes();
    client =
        std::make_shared<Client>(std::make_unique<DriverLink>(hub), 0, hub->most(), 0, node.host);
    hub->set_client(client);
  }

  const pid_t pid = ::getpid();
  SessionFolder folder;
  std::shared_ptr<Hub> hub;
  std::shared_ptr<Client> client;
};

std::mutex runtime_mutex;
// In a process that Manta started: the folder of its run.
std::string& folder_of_starter() {
  static std::string folder;
  return folder;
}
std::unique_ptr<Runtime>& runtime() {
  static auto* instance = new std::unique_ptr<Runtime>;
  return *instance;
}

// Every large object is an open file in the driver.
void raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Before this call, most of Arrow's compute functions are not found by name. The zygote makes the
// call before it forks, so that it costs workers nothing; it starts no thread.
void initialize_arrow() {
  check(arrow::compute::Initialize(), "initialising Arrow's compute functions");
}

void start_driver(std::vector<std::string> argv, const InitOptions& options) {
  std::lock_guard lock(runtime_mutex);
  if (runtime() || Client::current_or_null())
    throw Error(ErrorKind::kInvalidArgument,
                "manta::init was called twice; call it once, first in main");
  raise_open_files_limit();
  try {
    auto starting = std::make_unique<Runtime>(options, std::move(argv));
    initialize_arrow();  // takes milliseconds, in which the zygote starts
    runtime() = std::move(starting);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kResources, "manta::init: no memory is left; " + describe_limits());
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::kResources, str("manta::init: ", error.what(), "; ", describe_limits()));
  }
  Client::set_current(runtime()->client);
  static const int registered = std::atexit([] { shutdown(); });
  (void)registered;
}

[[noreturn]] void run_detached_call(const StartAs& start, std::vector<std::string> argv) {
  int code = 0;
  try {
    become(start.spec);
    start_driver(std::move(argv), {});
    InArchive archive(start.spec.detached_call);
    TaskSpec spec;
    archive(spec);
    std::shared_ptr<void> none;
    Outcome outcome = run_call(spec, {}, &none, &none);
    if (!outcome.ok) throw_error(outcome.error);
  } catch (const std::exception& error) {
    std::cerr << "manta: the detached process failed: " << error.what() << std::endl;
    code = 1;
  }
  shutdown();
  std::cout.flush();
  ::fflush(nullptr);
  ::_exit(code);
}

// In a process that Manta started by exec: does not return.
[[noreturn]] void start_as_told(int fd, int argc, char** argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  try {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    Channel channel{UniqueFd(fd)};
    Frame frame;
    if (!channel.receive(&frame, Deadline::after(std::chrono::seconds(60))))
      ::_exit(0);  // the starter has gone
    ToZygote message = decode_message<ToZygote>(frame);
    auto* start = std::get_if<StartAs>(&message);
    if (!start)
      throw Error(ErrorKind::kCorrupt, "the first message does not say what this process is");
    if (start->build_id != program_build_id()) {
      throw Error(
          ErrorKind::kInvalidArgument,
          str("this process is of build ", to_hex(program_build_id()), ", who started it of build ",
              to_hex(start->build_id), ": the program's file was replaced while it ran"));
    }
    initialize_arrow();
    folder_of_starter() = start->session_folder;  // workers that the zygote forks have it, too
    if (start->role == StartAs::kZygote) run_zygote(channel, *start, argv);
    if (start->role == StartAs::kDetached) run_detached_call(*start, std::move(arguments));
    become(start->spec);
    outlive_sigterm();
    record_crashes(crash_file(start->session_folder, start->process));
    run_worker(start->address, start->process, start->spec.name);
  } catch (const std::exception& error) {
    std::cerr << "manta: a process of the run cannot start: " << error.what() << std::endl;
    ::_exit(1);
  }
}

}  // namespace

const std::string& current_session_folder() {
  std::lock_guard lock(runtime_mutex);
  if (!runtime()) {
    throw Error(ErrorKind::kInvalidArgument,
                "this needs a program that called manta::init first in main, not a worker");
  }
  return runtime()->folder.path();
}

std::string temporary_folder() {
  std::lock_guard lock(runtime_mutex);
  if (runtime()) return runtime()->folder.path();
  if (!folder_of_starter().empty()) return folder_of_starter();
  std::error_code ignored;
  auto folder = std::filesystem::temp_directory_path(ignored);
  return folder.empty() ? "/tmp" : folder.string();
}

std::shared_ptr<const SessionFolder> own_temporary_folder() {
  static std::mutex mutex;
  static std::weak_ptr<const SessionFolder> shared;
  std::lock_guard lock(mutex);
  auto folder = shared.lock();
  if (folder) return folder;
  std::error_code ignored;
  // A detached process may live longer than the run that started it.
  bool has_run = std::filesystem::is_directory(folder_of_starter(), ignored);
  shared = folder = std::make_shared<const SessionFolder>(has_run ? folder_of_starter() : "");
  return folder;
}

void init(int argc, char** argv, const InitOptions& options) {
  if (const char* fd = std::getenv(kStartVariable)) {
    int number = std::atoi(fd);
    ::unsetenv(kStartVariable);
    start_as_told(number, argc, argv);
  }
  if (const char* from = std::getenv(kNodeVariable)) {
    std::string order_from = from;
    ::unsetenv(kNodeVariable);
    ::unsetenv(kClusterVariable);
    raise_open_files_limit();
    run_node_agent(order_from, std::vector<std::string>(argv, argv + argc));
  }
  start_driver(std::vector<std::string>(argv, argv + argc), options);
}

void shutdown() {
  std::unique_ptr<Runtime> ending;
  {
    std::lock_guard lock(runtime_mutex);
    ending = std::move(runtime());
  }
  if (!ending) return;
  if (ending->pid != ::getpid()) {
    // In a fork of the driver: the run, and its thread, belong to the driver.
    (void)ending.release();
    return;
  }
  Client::set_current(nullptr);
  ending->hub->stop();
  ending->client->finish_callbacks();
}

bool is_initialized() { return Client::current_or_null() != nullptr; }

std::vector<Node> nodes() { return Client::current("nodes")->ask(AskNodes{}).nodes; }

Resources cluster_resources() {
  Resources sum{.cpus = 0};
  for (const Node& node : Client::current("cluster_resources")->ask(AskNodes{}).nodes) {
    add_resources(sum, node.total);
  }
  return sum;
}

Resources available_resources() {
  Resources sum{.cpus = 0};
  for (const Node& node : Client::current("available_resources")->ask(AskNodes{}).nodes) {
    if (node.state == NodeState::kAlive) add_resources(sum, node.free);
  }
  return sum;
}

namespace detail {

pid_t start_detached(TaskSpec spec, const DetachedOptions& options) {
  auto client = Client::current("run_detached");
  StartDetached request;
  request.spec = std::move(spec);
  request.log_path =
      options.log_path.empty() ? "/dev/null" : std::filesystem::absolute(options.log_path).string();
  return static_cast<pid_t>(client->ask(std::move(request)).id);
}

}  // namespace detail
}  // namespace manta
