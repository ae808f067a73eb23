// Drivers that the tests start, watch and kill. `driver <mode>`; each prints what the test needs to
// know.

#include <arrow/api.h>
#include <manta/manta.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>

using namespace manta;
using namespace std::chrono_literals;

namespace {

struct Sleeper {
  int pid() { return ::getpid(); }
  void chatter() {
    for (int i = 0; i < 20; ++i) std::cout << "always the same\n";
    std::cout << "I am " << ::getpid() << "\n";
  }
  std::string environment(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value ? value : "(not set)";
  }
};

// Prints its pid and what it started, then works for ever.
void work_for_ever(const std::string& path) {
  if (::fork() == 0) ::execlp("sleep", "sleep", "1000", nullptr);
  std::ofstream(path) << ::getpid();
  for (volatile bool go_on = true; go_on;) {
  }
}

// Tasks that spin, an actor and a large object; prints the pid of each process.
int busy(int argc, char** argv) {
  InitOptions options;
  options.resources.cpus = 2;
  manta::init(argc, argv, options);
  auto object = put(std::string(10'000'000, 'x'));
  auto sleeper = actor<Sleeper>();
  int actor_pid = get(sleeper.call<&Sleeper::pid>());
  std::string folder = argv[2];
  std::vector<ObjectRef<void>> tasks;
  for (int i = 0; i < 2; ++i)
    tasks.push_back(remote(work_for_ever, folder + "/task" + std::to_string(i)));
  for (int i = 0; i < 2; ++i) {
    while (!std::ifstream(folder + "/task" + std::to_string(i))) std::this_thread::sleep_for(1ms);
  }
  std::cout << "ready " << actor_pid << std::endl;
  std::string line;
  if (argc > 3) std::getline(std::cin, line);  // the test has looked around
  if (argc > 3 && std::string(argv[3]) == "return") return 3;
  if (argc > 3 && std::string(argv[3]) == "throw") throw std::runtime_error("main failed");
  if (argc > 3 && std::string(argv[3]) == "exit") std::exit(4);
  if (argc > 3 && std::string(argv[3]) == "shutdown") {
    manta::shutdown();
    std::cout << "shut down" << std::endl;
  }
  get(tasks);
  return 0;
}

int no_init() {
  try {
    remote([] { return 1; });
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
  }
  try {
    actor<Sleeper>();
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
  }
  return 0;
}

// Calls init, shutdown, init again; and init twice.
int again(int argc, char** argv) {
  manta::init(argc, argv);
  ObjectRef<int> old = remote([] { return 1; });
  get(old);
  try {
    manta::init(argc, argv);
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
  }
  manta::shutdown();
  std::cout << std::boolalpha << is_initialized() << std::endl;
  manta::init(argc, argv);
  std::cout << get(remote([] { return 2; })) << std::endl;
  try {
    get(old);
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
  }
  try {
    remote([](int x) { return x; }, old);
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
  }
  return 0;
}

// Inherits or asks for ignored children; a worker's death must be noticed all the same.
int ignores_children(int argc, char** argv) {
  ::signal(SIGCHLD, SIG_IGN);
  manta::init(argc, argv);
  try {
    get(remote({.max_retries = 0}, [] { ::raise(SIGKILL); }), 30s);
  } catch (const Error& error) {
    std::cout << kind_name(error.kind()) << std::endl;
  }
  return 0;
}

// A fork of the driver can exit, cannot use the run, and does not keep it alive.
int forks(int argc, char** argv) {
  manta::init(argc, argv);
  get(remote([] { return 1; }));
  if (::fork() == 0) {
    try {
      remote([] { return 1; });
    } catch (const Error& error) {
      std::cout << error.what() << std::endl;
    }
    std::exit(0);
  }
  pid_t lives_on = ::fork();
  if (lives_on == 0) {
    std::this_thread::sleep_for(1000s);
    ::_exit(0);
  }
  std::cout << lives_on << std::endl;
  std::this_thread::sleep_for(1000s);
  return 0;
}

// The largest address space of this process in bytes.
rlim_t address_space() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// This process, and those that it starts, may have this many KiB of address space more than the
// program itself takes: gives a result, or an error that says what is missing.
int little_memory(int argc, char** argv) {
  if (!std::getenv("MANTA_START_FD")) {
    rlim_t bytes = address_space() + (static_cast<rlim_t>(std::atoll(argv[2])) << 10);
    rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  set_log_level(LogLevel::kOff);
  try {
    manta::init(argc, argv, {.resources = {.cpus = 1}});
    std::cout << get(remote([](int x) { return x + 1; }, 41), 50s) << std::endl;
  } catch (const Error& error) {
    std::cout << kind_name(error.kind()) << ": " << error.what() << std::endl;
  }
  return 0;
}

// Has only this much address space for a sort.
int little_memory_to_sort(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 1}});
  rlim_t bytes = address_space() + (static_cast<rlim_t>(std::atoll(argv[2])) << 10);
  rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_AS, &limit);
  try {
    std::cout << data::range(1000).sort("id", {.descending = true}).to_table()->num_rows()
              << std::endl;
  } catch (const Error& error) {
    std::cout << kind_name(error.kind()) << ": " << error.what() << std::endl;
  }
  return 0;
}

// The program started once more ends before it gets to init.
int no_zygote(int argc, char** argv) {
  if (std::getenv("MANTA_START_FD")) {
    std::cerr << "not with me" << std::endl;
    ::_exit(9);
  }
  set_log_level(LogLevel::kOff);
  manta::init(argc, argv, {.resources = {.cpus = 1}});
  auto sleeper = actor<Sleeper>();
  for (const auto& ref : {remote([] { return 1; }), sleeper.call<&Sleeper::pid>()}) {
    try {
      get(ref, 50s);
    } catch (const Error& error) {
      std::string text = error.what();
      std::replace(text.begin(), text.end(), '\n', ' ');
      std::cout << kind_name(error.kind()) << ": " << text << std::endl;
    }
  }
  return 0;
}

// Its log folder has gone: no worker can start, and tasks that wait for one fail with the reason.
int no_workers(int argc, char** argv) {
  set_log_level(LogLevel::kOff);
  manta::init(argc, argv, {.log_folder = argv[2]});
  std::filesystem::remove_all(argv[2]);
  auto task = remote([] { return 1; });
  auto dependent = remote([](int x) { return x; }, task);
  auto sleeper = actor<Sleeper>();
  auto call = sleeper.call<&Sleeper::pid>();
  for (const auto& ref : {task, dependent, call}) {
    try {
      get(ref, 30s);
    } catch (const Error& error) {
      std::cout << kind_name(error.kind()) << ": " << error.what() << std::endl;
    }
  }
  return 0;
}

// Writes more than its reader reads, and goes on.
int flood(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  auto loud = remote([] {
    for (int i = 0; i < 200'000; ++i) std::cout << "a line that nobody reads, number " << i << "\n";
  });
  get(loud, 30s);
  std::cout << get(remote([] { return 42; }), 30s) << std::endl;
  return 0;
}

// Output of workers, with and without showing it.
int talk(int argc, char** argv) {
  manta::init(argc, argv, {.log_to_driver = std::string(argv[2]) == "show", .log_folder = argv[3]});
  get(remote([] {
    std::cout << "one line\nand another" << std::endl;
    std::cerr << "to standard error\n";
    printf("without an end");
  }));
  std::cerr << "after the task" << std::endl;
  return 0;
}

int gpus(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 4, .gpus = 2}});
  auto whole = actor<Sleeper>({.resources = {.cpus = 0, .gpus = 1}});
  auto share = actor<Sleeper>({.resources = {.cpus = 0, .gpus = 0.5}});
  auto other = actor<Sleeper>({.resources = {.cpus = 0, .gpus = 0.5}});
  auto none = actor<Sleeper>();
  for (const auto& one : {whole, share, other, none}) {
    std::cout << get(one.call<&Sleeper::environment>("CUDA_VISIBLE_DEVICES")) << ";";
  }
  std::cout << get(remote({.resources = {.cpus = 4}}, [] {
    return std::string(std::getenv("OMP_NUM_THREADS"));
  })) << std::endl;
  return 0;
}

// How threads of OpenMP wait in a task's and in an actor's process.
int wait_policy(int argc, char** argv) {
  InitOptions options;
  if (std::string(argv[2]) == "more")
    options.resources.cpus = 1 + std::thread::hardware_concurrency();
  manta::init(argc, argv, options);
  auto of_task = [] { return Sleeper().environment("OMP_WAIT_POLICY"); };
  auto sleeper = actor<Sleeper>({.resources = {.cpus = 0}});
  std::cout << get(remote(of_task)) << " "
            << get(sleeper.call<&Sleeper::environment>("OMP_WAIT_POLICY")) << std::endl;
  return 0;
}

// Tasks with all kinds of grants, one after the other and side by side; prints for each the process
// and the devices that it sees.
int gpu_tasks(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 4, .gpus = 2}});
  auto task = [](double gpus) {
    return remote({.resources = {.cpus = gpus > 0 ? 0.0 : 1.0, .gpus = gpus}}, [] {
      std::this_thread::sleep_for(2ms);
      return std::to_string(::getpid()) + " " + std::getenv("CUDA_VISIBLE_DEVICES");
    });
  };
  for (int round = 0; round < 5; ++round) {
    for (double gpus : {0.0, 1.0, 0.0, 2.0, 0.5, 1.0, 0.0}) {
      std::cout << gpus << " " << get(task(gpus), 30s) << std::endl;
    }
    std::vector<double> asked{1.0, 1.0, 0.0, 0.5, 0.5, 1.0, 2.0, 0.0, 1.0};
    std::vector<ObjectRef<std::string>> refs;
    for (double gpus : asked) refs.push_back(task(gpus));
    for (size_t i = 0; i < refs.size(); ++i) {
      std::cout << asked[i] << " " << get(refs[i], 30s) << std::endl;
    }
  }
  return 0;
}

// Sixty equal lines of three workers, and one that differs in each.
int chatter(int argc, char** argv) {
  manta::init(argc, argv,
              {.resources = {.cpus = 3},
               .fold_repeated_lines = std::string(argv[2]) == "fold",
               .log_folder = argv[3]});
  std::vector<ActorHandle<Sleeper>> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(actor<Sleeper>());
  std::vector<ObjectRef<void>> done;
  for (const auto& worker : workers) done.push_back(worker.call<&Sleeper::chatter>());
  get(done, 30s);
  return 0;
}

void outlive(const std::string& path) {
  // A separate run: the driver that started it has gone.
  while (!std::ifstream(path + ".go")) std::this_thread::sleep_for(1ms);
  int value = get(remote([](int x) { return x + 1; }, 41));
  std::ofstream(path + ".tmp") << value << std::endl;
  std::rename((path + ".tmp").c_str(), path.c_str());
}

int detached(int argc, char** argv) {
  manta::init(argc, argv);
  try {
    run_detached(
        {}, [](const ObjectRef<int>&) {}, put(1));
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
  }
  std::cout << run_detached({.log_path = std::string(argv[2]) + ".log"}, outlive, argv[2])
            << std::endl;
  std::this_thread::sleep_for(1000s);
  return 0;
}

// Prints the pids of the zygote's workers and goes on when told to.
int after_zygote(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  auto actor_ = actor<Sleeper>({.max_restarts = 1});
  std::cout << get(actor_.call<&Sleeper::pid>()) << std::endl;
  std::string line;
  std::getline(std::cin, line);
  std::cout << get(remote([] { return 42; }), 30s) << " " << get(actor_.call<&Sleeper::pid>(), 30s)
            << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "no_init") return no_init();
  if (mode == "busy") return busy(argc, argv);
  if (mode == "again") return again(argc, argv);
  if (mode == "talk") return talk(argc, argv);
  if (mode == "ignores_children") return ignores_children(argc, argv);
  if (mode == "forks") return forks(argc, argv);
  if (mode == "no_workers") return no_workers(argc, argv);
  if (mode == "little_memory") return little_memory(argc, argv);
  if (mode == "little_memory_to_sort") return little_memory_to_sort(argc, argv);
  if (mode == "no_zygote") return no_zygote(argc, argv);
  if (mode == "flood") return flood(argc, argv);
  if (mode == "gpus") return gpus(argc, argv);
  if (mode == "wait_policy") return wait_policy(argc, argv);
  if (mode == "gpu_tasks") return gpu_tasks(argc, argv);
  if (mode == "chatter") return chatter(argc, argv);
  if (mode == "detached") return detached(argc, argv);
  if (mode == "after_zygote") return after_zygote(argc, argv);
  manta::init(argc, argv);  // where a worker of "no mode" goes on
  bool help = mode == "--help";
  (help ? std::cout : std::cerr) << "usage: driver <mode>, one of those in the source; not '"
                                 << mode << "'\n";
  return help ? 0 : 2;
}
