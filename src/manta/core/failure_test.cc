// What happens to tasks whose processes die.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/init.h"
#include "manta/core/patience_internal.h"
#include "manta/core/remote.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

int die(int signal) {
  std::cout << "about to fail" << std::endl;
  ::signal(signal, SIG_DFL);
  ::raise(signal);
  return 0;
}

int die_until(int attempt) {
  int now = get_runtime_context().attempt;
  if (now < attempt) ::raise(SIGKILL);
  return now;
}

TEST(Failure, ADeadProcessIsReportedWithItsSignalAndTheEndOfItsLog) {
  for (int signal : {SIGKILL, SIGTERM, SIGUSR1}) {
    Error error = error_of(
        [&] { get(remote({.max_retries = 0, .name = "doomed"}, die, signal), kPatience); });
    EXPECT_EQ(error.kind(), ErrorKind::kWorkerLost);
    EXPECT_THAT(
        error.what(),
        AllOf(HasSubstr("task 'doomed' was lost in attempt 1 of 1: its process worker-"),
              HasSubstr(str("signal ", signal)), HasSubstr("The end of its log:\nabout to fail")));
  }
}

TEST(Failure, AnExitInATaskIsALostProcess) {
  Error error = error_of([] { get(remote({.max_retries = 0}, [] { ::_exit(3); }), kPatience); });
  EXPECT_EQ(error.kind(), ErrorKind::kWorkerLost);
  EXPECT_THAT(error.what(), HasSubstr("exited with code 3"));
}

TEST(Failure, ATaskIsRunAgainAsOftenAsItMay) {
  EXPECT_EQ(get(remote(die_until, 4), kPatience), 4);  // the default: 3 retries
  EXPECT_EQ(get(remote({.max_retries = 1}, die_until, 2), kPatience), 2);
  Error error = error_of([] { get(remote({.max_retries = 1}, die_until, 3), kPatience); });
  EXPECT_EQ(error.kind(), ErrorKind::kWorkerLost);
  EXPECT_THAT(error.what(), HasSubstr("in attempt 2 of 2"));
}

TEST(Failure, TasksSentAheadOfADeathAreNotCharged) {
  for (int i = 0; i < 300; ++i)
    get(remote(die_until, 0));  // short ones are sent ahead from here on
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 300; ++i)
    refs.push_back(remote({.max_retries = i % 50 == 7 ? 1 : 0}, die_until, i % 50 == 7 ? 2 : 1));
  for (int i = 0; i < 300; ++i)
    EXPECT_EQ(get(refs[static_cast<size_t>(i)], kPatience), i % 50 == 7 ? 2 : 1);
}

TEST(Failure, DeathInANestedTaskIsSeenByItsParent) {
  auto ref = remote([] {
    try {
      return get(remote({.max_retries = 0}, die, SIGKILL));
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kWorkerLost ? 42 : 1;
    }
  });
  EXPECT_EQ(get(ref, kPatience), 42);
}

bool is_stopped(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  size_t name = text.rfind(')');
  return name != std::string::npos && text.substr(name + 2, 1) == "T";
}

// The process hangs when its task is cancelled by force. So it is to be killed, but the kill is
// held up (the zygote is stopped), and the task ends meanwhile. The next task, which may be begun
// only once, must not be given to a process that will be killed.
TEST(Failure, ATaskAfterAKilledOneIsNotChargedForIt) {
  for (int round = 0; round < 4; ++round) {
    TemporaryFolder folder;
    auto stuck = remote(
        {.resources = {.cpus = 2}},
        [](const std::string& path) {
          std::ofstream(path + ".new") << ::getpid() << " " << ::getppid();
          std::filesystem::rename(path + ".new", path);
          ::raise(SIGSTOP);
        },
        folder / "pids");
    pid_t worker = 0, zygote = 0;
    for (Deadline end = Deadline::after(kPatience); !end.passed() && !is_stopped(worker);) {
      std::ifstream(folder / "pids") >> worker >> zygote;
    }
    ASSERT_TRUE(is_stopped(worker));
    ::kill(zygote, SIGSTOP);
    cancel(stuck, {.force = true});
    std::this_thread::sleep_for(700ms);  // more than the hub's patience with it
    auto next = remote(
        {.resources = {.cpus = 2}, .max_retries = 0},
        [](const std::string& path) {
          std::ofstream(path) << "begun";
          std::this_thread::sleep_for(300ms);
          return 1;
        },
        folder / "begun");
    ::kill(worker, SIGCONT);
    for (Deadline end = Deadline::after(200ms); !end.passed();) {
      if (std::filesystem::exists(folder / "begun")) break;
    }
    ::kill(zygote, SIGCONT);
    EXPECT_EQ(get(next, kPatience), 1);
  }
}

// Writes garbage to every socket of the worker, as a broken program might.
void write_garbage() {
  for (int fd = 3; fd < 100; ++fd) {
    int type = 0;
    socklen_t size = sizeof(type);
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0) {
      [[maybe_unused]] auto written = ::write(fd, "this is no frame at all", 23);
    }
  }
  ::sleep(30);
}

TEST(Failure, AWorkerThatSendsGarbageIsEnded) {
  Error error = error_of([] { get(remote({.max_retries = 0}, write_garbage), kPatience); });
  EXPECT_EQ(error.kind(), ErrorKind::kWorkerLost);
  EXPECT_EQ(get(remote({.resources = {.cpus = 2}}, [] { return 1; }), kPatience), 1);
}

}  // namespace
}  // namespace manta
