// Nothing is left when a driver, a zygote or a worker ends, in whatever way.

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "manta/base/temporary_folder_internal.h"
#include "process_tree.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

bool all_gone(const std::vector<pid_t>& pids) {
  return std::none_of(pids.begin(), pids.end(), is_running);
}

// A driver at work: two tasks that spin and have children of their own, an actor, a large object.
class BusyDriver {
 public:
  explicit BusyDriver(const std::string& how = "")
      : program(test_program("driver"), arguments(how), folder.path()) {
    EXPECT_THAT(program.read_line(), HasSubstr("ready"));
    processes = descendants(program.pid());
    EXPECT_GE(processes.size(), 6u);  // zygote, actor, two workers, their two children
    if (!how.empty()) program.write_line("go on");
  }

  void expect_nothing_left() {
    EXPECT_TRUE(eventually([&] { return all_gone(processes); }));
    EXPECT_TRUE(eventually([&] { return folder.entries().empty(); })) << folder.entries().front();
  }

  std::vector<std::string> arguments(const std::string& how) const {
    std::vector<std::string> result{"busy", files.path()};
    if (!how.empty()) result.push_back(how);
    return result;
  }

  TemporaryFolder folder, files;
  Program program;
  std::vector<pid_t> processes;
};

TEST(Lifetimes, SigkillOfTheDriverLeavesNothing) {
  BusyDriver driver;
  driver.program.send(SIGKILL);
  driver.program.wait();
  driver.expect_nothing_left();
}

// It is killed while it makes its folder and starts its processes.
TEST(Lifetimes, SigkillOfTheDriverAtItsBeginningLeavesNothing) {
  constexpr int kTimes = 60;
  for (int time = 0; time < kTimes; ++time) {
    TemporaryFolder folder, files;
    Program program(test_program("driver"), {"busy", files.path()}, folder.path());
    std::this_thread::sleep_for(std::chrono::microseconds(1000 * time));
    program.send(SIGKILL);
    program.wait();
    EXPECT_TRUE(eventually([&] { return folder.entries().empty(); }))
        << folder.entries().front() << " is left, of a driver that was killed after " << time
        << " ms";
  }
}

TEST(Lifetimes, SigkillOfTheDriverEndsStoppedWorkersToo) {
  BusyDriver driver;
  for (pid_t pid : driver.processes) {
    if (pid != driver.processes.front()) ::kill(pid, SIGSTOP);  // all but the zygote
  }
  driver.program.send(SIGKILL);
  driver.program.wait();
  driver.expect_nothing_left();
}

TEST(Lifetimes, CtrlCLeavesNothing) {
  BusyDriver driver;
  driver.program.send_group(SIGINT);
  int status = driver.program.wait();
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
  driver.expect_nothing_left();
}

TEST(Lifetimes, EveryWayOutOfMainLeavesNothing) {
  struct Case {
    const char* how;
    int code, signal;
  };
  for (const Case& c : {Case{"return", 3, 0}, Case{"exit", 4, 0}, Case{"throw", 0, SIGABRT}}) {
    SCOPED_TRACE(c.how);
    BusyDriver driver(c.how);
    int status = driver.program.wait();
    if (c.signal == 0) {
      EXPECT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), c.code);
    } else {
      EXPECT_TRUE(WIFSIGNALED(status));
      EXPECT_EQ(WTERMSIG(status), c.signal);
    }
    driver.expect_nothing_left();
  }
}

TEST(Lifetimes, ShutdownLeavesNothingWhileTheProgramGoesOn) {
  BusyDriver driver("shutdown");
  EXPECT_EQ(driver.program.read_line(), "shut down");
  driver.expect_nothing_left();
}

TEST(Lifetimes, SigkillOfDriverAndZygoteEndsTheWorkersAndTheNextRunRemovesTheFolder) {
  BusyDriver driver;
  pid_t zygote = driver.processes.front();
  driver.program.send(SIGSTOP);  // so that it cannot start another
  ::kill(zygote, SIGKILL);
  driver.program.send(SIGKILL);
  driver.program.wait();
  // Once the zygote has been killed, no process ends the tasks' own children.
  EXPECT_TRUE(eventually([&] { return !is_running(zygote) && all_gone(descendants(zygote)); }));
  EXPECT_EQ(driver.folder.entries().size(), 1u);
  Program next(test_program("driver"), {"again"}, driver.folder.path());
  next.wait();
  EXPECT_THAT(driver.folder.entries(), IsEmpty());
  for (pid_t pid : driver.processes) ::kill(pid, SIGKILL);
}

TEST(Lifetimes, SigkillOfTheZygoteIsSurvived) {
  TemporaryFolder folder;
  Program program(test_program("driver"), {"after_zygote"}, folder.path());
  pid_t actor = std::stoi(program.read_line());
  auto processes = descendants(program.pid());
  ::kill(processes.front(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return !is_running(actor); }));
  program.write_line("go on");
  std::string line = program.read_line();
  EXPECT_THAT(line, HasSubstr("42 "));
  EXPECT_THAT(line, Not(HasSubstr(std::to_string(actor))));
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(folder.entries(), IsEmpty());
}

TEST(Lifetimes, ADetachedProcessOutlivesItsDriver) {
  TemporaryFolder folder;
  std::string result = folder.path() + "/result";
  Program program(test_program("driver"), {"detached", result}, folder.path());
  EXPECT_THAT(program.read_line(), HasSubstr("a detached process outlives this run"));
  pid_t pid = std::stoi(program.read_line());
  auto processes = descendants(program.pid());
  EXPECT_TRUE(is_running(pid));
  program.send(SIGKILL);
  program.wait();
  EXPECT_TRUE(eventually([&] { return !is_running(processes.front()); }));  // the zygote
  EXPECT_TRUE(is_running(pid));
  std::ofstream(result + ".go") << "go";
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(result); }));
  std::string text;
  std::ifstream(result) >> text;
  EXPECT_EQ(text, "42");
  EXPECT_TRUE(eventually([&] { return !is_running(pid); }));
}

TEST(Lifetimes, AThreadBeforeMainMakesWorkersStartByExec) {
  TemporaryFolder folder;
  Program program(test_program("early_thread"), {}, folder.path());
  EXPECT_EQ(program.read_line(), "45 2");
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(program.read_errors(), HasSubstr("a static initialiser started threads"));
  EXPECT_THAT(folder.entries(), IsEmpty());
}

TEST(Lifetimes, AWorkerThatWasStartedByExecTellsOfItsCrashToo) {
  TemporaryFolder folder;
  Program program(test_program("early_thread"), {"crash"}, folder.path());
  std::string error = program.read_line();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_THAT(error, HasSubstr("was killed by SIGABRT (signal 6) in give_up(int). Its stack:"));
#endif
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(folder.entries(), IsEmpty());
}

TEST(Lifetimes, TheCommandLineAndTheEnvironmentCarryNoSecret) {
  BusyDriver driver;
  for (pid_t pid : driver.processes) {
    auto read = [&](const std::string& file) {
      std::ifstream in("/proc/" + std::to_string(pid) + "/" + file);
      return std::string((std::istreambuf_iterator<char>(in)), {});
    };
    ASSERT_TRUE(eventually([&] { return !read("cmdline").empty(); }));  // empty during exec
    if (read("cmdline").find("sleep") != std::string::npos) continue;   // a task's own child
    EXPECT_EQ(read("cmdline").substr(0, test_program("driver").size()), test_program("driver"));
    std::string environment = read("environ");
    size_t at = environment.find("MANTA_START_FD=");
    if (at != std::string::npos) environment.erase(at, environment.find('\0', at) - at);
    EXPECT_THAT(environment, Not(HasSubstr("MANTA_START")));
    EXPECT_THAT(environment, Not(HasSubstr("token")));
  }
}

TEST(Lifetimes, WithoutInitEveryCallSaysSo) {
  TemporaryFolder folder;
  Program program(test_program("driver"), {"no_init"}, folder.path());
  EXPECT_THAT(program.read_line(),
              AllOf(HasSubstr("manta::remote was called without a running Manta"),
                    HasSubstr("make manta::init(argc, argv) the first line of main")));
  EXPECT_THAT(program.read_line(), HasSubstr("manta::actor was called"));
  EXPECT_EQ(program.wait(), 0);
}

TEST(Lifetimes, InitMayBeCalledAgainAfterShutdown) {
  TemporaryFolder folder;
  Program program(test_program("driver"), {"again"}, folder.path());
  EXPECT_THAT(program.read_line(), HasSubstr("manta::init was called twice"));
  EXPECT_EQ(program.read_line(), "false");
  EXPECT_EQ(program.read_line(), "2");
  EXPECT_THAT(program.read_line(), HasSubstr("was shut down"));
  EXPECT_THAT(program.read_line(),
              HasSubstr("an ObjectRef argument is of a Manta that was shut down"));
  EXPECT_EQ(program.wait(), 0);
}

TEST(Lifetimes, WorkersOutputIsShownBehindTheirNamesAndKept) {
  for (bool show : {true, false}) {
    TemporaryFolder folder, logs;
    Program program(test_program("driver"), {"talk", show ? "show" : "hide", logs.path()},
                    folder.path());
    EXPECT_EQ(program.wait(), 0);
    std::string errors = program.read_errors();
    if (show) {
      EXPECT_THAT(
          errors,
          HasSubstr("(worker-1) one line\n(worker-1) and another\n(worker-1) to standard error\n"));
      EXPECT_THAT(errors, HasSubstr("(worker-1) without an end\n"));
      EXPECT_LT(errors.find("one line"), errors.find("after the task"));
    } else {
      EXPECT_EQ(errors, "after the task\n");
    }
    std::ifstream in(logs.path() + "/worker-1.log");
    std::string log((std::istreambuf_iterator<char>(in)), {});
    EXPECT_THAT(log, HasSubstr("one line\nand another\n"));
    EXPECT_THAT(folder.entries(), IsEmpty());
  }
}

TEST(Lifetimes, IgnoredChildrenAreStillNoticed) {
  TemporaryFolder folder;
  Program program(test_program("driver"), {"ignores_children"}, folder.path());
  EXPECT_EQ(program.read_line(), "worker lost");
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(folder.entries(), IsEmpty());
}

TEST(Lifetimes, AForkOfTheDriverNeitherUsesTheRunNorKeepsItAlive) {
  TemporaryFolder folder;
  Program program(test_program("driver"), {"forks"}, folder.path());
  std::vector<std::string> lines{program.read_line(), program.read_line()};
  std::sort(lines.begin(), lines.end());
  pid_t lives_on = std::stoi(lines[0]);
  EXPECT_THAT(lines[1], HasSubstr("in a process that the driver forked"));
  auto processes = descendants(program.pid());
  std::erase(processes, lives_on);
  program.send(SIGKILL);
  program.wait();
  EXPECT_TRUE(eventually([&] { return all_gone(processes); }));
  EXPECT_TRUE(eventually([&] { return folder.entries().empty(); }));
  ::kill(lives_on, SIGKILL);
}

TEST(Lifetimes, WorkersThatCannotStartAreAnErrorAndNotAHang) {
  TemporaryFolder folder;
  Program program(test_program("driver"), {"no_workers", folder.path() + "/logs"}, folder.path());
  EXPECT_THAT(program.read_line(),
              AllOf(HasSubstr("worker lost: no worker process could be started"),
                    HasSubstr("its log file")));
  EXPECT_THAT(program.read_line(), HasSubstr("worker lost: no worker process could be started"));
  EXPECT_THAT(program.read_line(), HasSubstr("worker lost: actor"));
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(folder.entries(), IsEmpty());
}

TEST(Lifetimes, AProgramThatCannotBeStartedAsZygoteIsAnErrorWithItsLastWords) {
  TemporaryFolder folder;
  Program program(test_program("driver"), {"no_zygote"}, folder.path());
  auto tells = AllOf(HasSubstr("worker lost: "), HasSubstr("the zygote, this program started once"),
                     HasSubstr("exited with code 9"), HasSubstr("It said: not with me"));
  EXPECT_THAT(program.read_line(), tells);
  EXPECT_THAT(program.read_line(), tells);
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(folder.entries(), IsEmpty());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need address space
TEST(Lifetimes, TooLittleAddressSpaceIsAnErrorThatSaysWhatIsMissing) {
  int errors = 0;
  for (int kib : {0, 1000, 4000, 1'000'000}) {
    SCOPED_TRACE(kib);
    TemporaryFolder folder;
    Program program(test_program("driver"), {"little_memory", std::to_string(kib)}, folder.path());
    std::string line = program.read_line();
    EXPECT_EQ(program.wait(), 0) << program.read_errors();
    EXPECT_THAT(folder.entries(), IsEmpty());
    if (line == "42") continue;
    ++errors;
    EXPECT_THAT(line, AllOf(HasSubstr("resources: "), HasSubstr("of address space (ulimit -v)")));
  }
  EXPECT_GE(errors, 1);
}

// DuckDB's own allocator would end the process by SIGSEGV.
TEST(Lifetimes, TooLittleAddressSpaceForASortIsAnErrorThatSaysWhatIsMissing) {
  int errors = 0;
  for (int mib : {10, 100, 200, 300, 350, 1150, 1200, 1250, 1300, 4000}) {
    SCOPED_TRACE(mib);
    TemporaryFolder folder;
    Program program(test_program("driver"), {"little_memory_to_sort", std::to_string(mib * 1024)},
                    folder.path());
    std::string line = program.read_line();
    EXPECT_EQ(program.wait(), 0) << program.read_errors();
    EXPECT_THAT(folder.entries(), IsEmpty());
    if (line == "1000") continue;
    ++errors;
    EXPECT_THAT(line, AllOf(HasSubstr("resources: "), HasSubstr("of address space (ulimit -v)")));
  }
  EXPECT_GE(errors, 1);
  EXPECT_LT(errors, 10);
}
#endif

TEST(Lifetimes, UnreadOutputHoldsNothingUp) {
  TemporaryFolder folder;
  Program program(test_program("driver"), {"flood"}, folder.path());
  EXPECT_EQ(program.read_line(), "42");
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(folder.entries(), IsEmpty());
}

TEST(Lifetimes, GrantsShowInTheEnvironment) {
  TemporaryFolder folder;
  Program program(test_program("driver"), {"gpus"}, folder.path());
  EXPECT_EQ(program.read_line(), "0;1;1;;4");
  EXPECT_EQ(program.wait(), 0);
}

// CUDA reads the variable once in a process: a process that saw other devices would use those.
TEST(Lifetimes, ThreadsOfOpenMPDoNotSpinWhereARunHasMoreCpusThanThereAre) {
  auto of_workers = [](const char* cpus) {
    TemporaryFolder folder;
    return Program(test_program("driver"), {"wait_policy", cpus}, folder.path()).read_line();
  };
  ::unsetenv("OMP_WAIT_POLICY");
  EXPECT_EQ(of_workers("as many"), "(not set) (not set)");
  EXPECT_EQ(of_workers("more"), "passive passive");
  ::setenv("OMP_WAIT_POLICY", "active", 1);
  EXPECT_EQ(of_workers("as many"), "active active");
  EXPECT_EQ(of_workers("more"), "active active") << "what the user says";
}

TEST(Lifetimes, AWorkerSeesTheSameDevicesAllItsLife) {
  TemporaryFolder folder;
  Program program(test_program("driver"), {"gpu_tasks"}, folder.path());
  std::map<pid_t, std::string> seen;
  size_t lines = 0;
  for (std::string line; !(line = program.read_line()).empty(); ++lines) {
    std::istringstream in(line);
    double gpus = -1;
    pid_t pid = 0;
    std::string devices;
    in >> gpus >> pid >> devices;
    EXPECT_EQ(seen.try_emplace(pid, devices).first->second, devices) << "pid " << pid;
    EXPECT_EQ(devices.empty(), gpus == 0) << line;
    EXPECT_EQ(devices == "0,1", gpus == 2) << line;
  }
  EXPECT_EQ(lines, 5 * (7 + 9));
  EXPECT_EQ(program.wait(), 0);
}

TEST(Lifetimes, RepeatedLinesAreShownOnceWithACountAndKeptInTheFiles) {
  for (bool fold : {true, false}) {
    TemporaryFolder folder, logs;
    Program program(test_program("driver"), {"chatter", fold ? "fold" : "all", logs.path()},
                    folder.path());
    EXPECT_EQ(program.wait(), 0);
    std::string errors = program.read_errors();
    size_t shown = 0, counted = 0, others = 0, kept = 0;
    std::istringstream lines(errors);
    for (std::string line; std::getline(lines, line);) {
      size_t count = line.find("always the same [repeated ");
      if (count != std::string::npos) {
        counted += std::stoul(line.substr(count + 26));
      } else if (line.find("always the same") != std::string::npos) {
        ++shown;
      }
      if (line.find("I am") != std::string::npos) ++others;
    }
    for (const auto& name : logs.entries()) {
      std::ifstream in(logs / name);
      for (std::string line; std::getline(in, line);) kept += line == "always the same";
    }
    EXPECT_EQ(shown + counted, 60u) << errors;
    EXPECT_EQ(others, 3u);
    EXPECT_EQ(kept, 60u);
    if (fold) {
      EXPECT_LT(shown, 20u) << errors;
    } else {
      EXPECT_EQ(shown, 60u);
    }
  }
}

}  // namespace
}  // namespace manta
