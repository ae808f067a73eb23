// The report of a process that crashes: where it crashed, why, and its last output.

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/actor.h"
#include "manta/core/crash_internal.h"
#include "manta/core/elf_symbols_internal.h"
#include "manta/core/patience_internal.h"
#include "manta/core/remote.h"

// Not in an anonymous namespace: their names are what the tests look for.
namespace crashes {

volatile int zero = 0;
int* volatile nowhere = nullptr;
void (*volatile no_function)() = nullptr;

[[gnu::noinline]] int write_to_null(int value) {
  *nowhere = value;
  return value + 1;
}
[[gnu::noinline]] int divide_by_zero(int value) { return value / zero; }
[[gnu::noinline]] int run_into_a_trap(int) { __builtin_trap(); }
[[gnu::noinline]] int abort_in_here(int value) {
  if (zero == 0) std::abort();
  return value + 1;
}
[[gnu::noinline]] int call_null(int value) {
  no_function();
  return value + 1;
}
[[gnu::noinline]] int recurse_for_ever(int value) {
  volatile char room[4096];
  room[0] = static_cast<char>(value);
  return zero == 0 ? recurse_for_ever(value + 1) + room[0] : value;
}
[[gnu::noinline]] int receive_bus_error(int value) {
  ::raise(SIGBUS);
  return value + 1;
}
int throw_in_a_thread(int) {
  std::thread([] { throw std::runtime_error("the thread's own\nmistake"); }).join();
  return 0;
}
int throw_a_number_in_a_thread(int) {
  std::thread([] { throw 7; }).join();
  return 0;
}
[[gnu::noinline]] int leave_a_thread_behind(int value) {
  std::thread left([] { ::sleep(100); });
  return value + 1;
}

}  // namespace crashes

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIP_UNDER_SANITIZERS() GTEST_SKIP() << "sanitizers report crashes in their own way"
#else
#define SKIP_UNDER_SANITIZERS()
#endif

std::string error_of_task(int (*function)(int)) {
  return message_of([&] { get(remote({.max_retries = 0}, function, 1), kPatience); });
}

TEST(Crash, TheErrorNamesTheSignalAndTheFunction) {
  SKIP_UNDER_SANITIZERS();
  struct Case {
    int (*function)(int);
    const char* how;
  };
  for (const Case& c : std::vector<Case>{
           {crashes::write_to_null,
            "was killed by SIGSEGV (signal 11) in crashes::write_to_null(int), accessing address "
            "0x0. Its stack:\n  #0 crashes::write_to_null(int) (core_test+0x"},
           {crashes::divide_by_zero, "SIGFPE (signal 8) in crashes::divide_by_zero(int)."},
           {crashes::run_into_a_trap, "SIGILL (signal 4) in crashes::run_into_a_trap(int)."},
           {crashes::abort_in_here, "SIGABRT (signal 6) in crashes::abort_in_here(int)."},
           {crashes::receive_bus_error, "SIGBUS (signal 7) in crashes::receive_bus_error(int)."},
           {crashes::recurse_for_ever, "SIGSEGV (signal 11) in crashes::recurse_for_ever(int),"},
           {crashes::call_null, "crashes::call_null(int) (core_test+0x"},
           {crashes::leave_a_thread_behind,
            "in crashes::leave_a_thread_behind(int): std::terminate was called without an "
            "exception"}}) {
    EXPECT_THAT(error_of_task(c.function), HasSubstr(c.how));
  }
}

TEST(Crash, AnUncaughtExceptionOfAThreadIsInTheErrorWithItsText) {
  std::string message = error_of_task(crashes::throw_in_a_thread);
  EXPECT_THAT(message, HasSubstr("was killed by SIGABRT (signal 6)"));
  EXPECT_THAT(message, HasSubstr("uncaught std::runtime_error: the thread's own"));
  EXPECT_THAT(error_of_task(crashes::throw_a_number_in_a_thread),
              HasSubstr("uncaught int, which is no std::exception"));
}

TEST(Crash, WhatWasPrintedBeforeIsNotLost) {
  SKIP_UNDER_SANITIZERS();
  std::string message = message_of([] {
    get(remote({.max_retries = 0},
               [] {
                 std::ios_base::sync_with_stdio(false);
                 std::cout << "a C++ stream's line\n";
                 std::printf("a C stream's line\n");
                 std::clog << "a log's line\n";
                 crashes::write_to_null(1);
               }),
        kPatience);
  });
  EXPECT_THAT(message, HasSubstr("The end of its log:\na C++ stream's line\na C stream's line\na "
                                 "log's line"));
  EXPECT_THAT(message, Not(HasSubstr("in thread")));  // the report itself is not repeated
}

struct Doomed {
  int crash() { return crashes::write_to_null(1); }
};

TEST(Crash, AnActorsLogFileHasTheWholeStackAndTheErrorNamesTheFile) {
  SKIP_UNDER_SANITIZERS();
  TemporaryFolder folder;
  std::string path = folder / "doomed.log";
  auto doomed = actor<Doomed>({.process_name = "rank-7", .log_path = path});
  std::string message = message_of([&] { get(doomed.call<&Doomed::crash>(), kPatience); });
  EXPECT_THAT(message, AllOf(HasSubstr("its process rank-7 (pid "),
                             HasSubstr("was killed by SIGSEGV (signal 11) in crashes::write_to_"),
                             HasSubstr("See its log " + path)));
  std::ifstream in(path);
  std::string log((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(log, AllOf(HasSubstr("manta: rank-7 (pid "), HasSubstr("in thread 'rank-7':\n  #0 "),
                         HasSubstr("#1 "), HasSubstr("manta::"), HasSubstr("main (core_test+")));
}

struct Deep {
  int recurse() { return crashes::recurse_for_ever(1); }
};

// The actor's calls run on several threads, each of which may overflow its own stack.
TEST(Crash, AnOverflowOfTheStackOfAnActorsOtherThreads) {
  SKIP_UNDER_SANITIZERS();
  auto deep = actor<Deep>({.max_concurrency = 2});
  EXPECT_THAT(message_of([&] { get(deep.call<&Deep::recurse>(), kPatience); }),
              HasSubstr("was killed by SIGSEGV (signal 11) in crashes::recurse_for_ever(int)"));
}

TEST(Crash, AHandlerOfTheUsersIsLeftAlone) {
  std::string message = message_of([] {
    get(remote({.max_retries = 0},
               [] {
                 ::signal(SIGSEGV, [](int) { ::_exit(7); });
                 ::raise(SIGSEGV);
               }),
        kPatience);
  });
  EXPECT_THAT(message, HasSubstr("exited with code 7"));
}

TEST(Crash, AProcessThatATaskForkedCrashesByItself) {
  SKIP_UNDER_SANITIZERS();
  EXPECT_EQ(get(remote([] {
                  pid_t child = ::fork();
                  if (child == 0) crashes::write_to_null(1);
                  int status = 0;
                  ::waitpid(child, &status, 0);
                  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
                }),
                kPatience),
            SIGSEGV);
  // It left no report that could be taken for a report of the worker.
  std::string message =
      message_of([] { get(remote({.max_retries = 0}, [] { ::raise(SIGKILL); }), kPatience); });
  EXPECT_THAT(message, Not(HasSubstr("write_to_null")));
}

TEST(Crash, TheDriversOwnHandlersAreNotTouched) {
  SKIP_UNDER_SANITIZERS();
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction action {};
    ASSERT_EQ(::sigaction(signal, nullptr, &action), 0);
    EXPECT_EQ(action.sa_handler, SIG_DFL) << signal;
  }
}

// As if the machine had reported a broken page that has not been accessed yet.
TEST(Crash, ASignalThatDoesNotComeAgainEndsTheProcess) {
  SKIP_UNDER_SANITIZERS();
  EXPECT_THAT(message_of([] {
                get(remote({.max_retries = 0},
                           [] {
                             siginfo_t info{};
                             info.si_signo = SIGBUS;
                             info.si_code = BUS_MCEERR_AO;
                             ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), SIGBUS,
                                       &info);
                           }),
                    kPatience);
              }),
              HasSubstr("was killed by SIGBUS (signal 7)"));
}

TEST(Crash, IsWrittenDownInAFolderWithALongName) {
  SKIP_UNDER_SANITIZERS();
  TemporaryFolder folder;
  std::string path = folder.path();
  for (int i = 0; i < 5; ++i) path += "/" + std::string(200, 'x');
  std::filesystem::create_directories(path);
  std::string file = crash_file(path, 7);
  pid_t child = ::fork();
  if (child == 0) {
    record_crashes(file);
    crashes::write_to_null(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  auto crash = take_crash(file);
  ASSERT_TRUE(crash);
  EXPECT_EQ(crash->address, "0x0");
}

// The process may be killed while it writes.
TEST(Crash, ARecordMayBeCutAnywhere) {
  TemporaryFolder folder;
  std::string file = folder / "crash";
  ProcessSpec spec;
  spec.name = "rank-0";
  spec.log_path = folder / "log";
  const std::string whole =
      "thread rank-0\nuncaught uncaught std::runtime_error: text\naddress 0x10\n"
      "frame 0x1a2 \nframe 0x7 ?\nframe 0x5 /no/such/libc.so.6\nframe 0x9 /no/such/thing\n";
  for (size_t size = 0; size <= whole.size(); ++size) {
    std::ofstream(file) << whole.substr(0, size);
    ProcessExit exit;
    exit.signal = SIGSEGV;
    EXPECT_NO_THROW(report_crash(file, spec, 1, &exit)) << size;
  }
  EXPECT_FALSE(take_crash(file));
  std::ofstream(file) << whole;
  auto crash = take_crash(file);
  ASSERT_TRUE(crash);
  EXPECT_EQ(crash->frames.size(), 4u);
  EXPECT_EQ(crash->frames[3], "thing+0x9");
  for (const char* line : {"frame", "frame ", "frame 0x1a2", "frame  ", " ", "", "frame ?"}) {
    std::ofstream(file) << line << "\n";
    EXPECT_NO_THROW(take_crash(file)) << line;
  }
}

TEST(ElfSymbols, AFileThatIsNoneHasNoNames) {
  TemporaryFolder folder;
  std::ofstream(folder / "short") << "\x7f"
                                  << "ELF";
  std::ofstream(folder / "text") << std::string(10'000, 'x');
  std::ofstream(folder / "damaged") << "\x7f"
                                    << "ELF" << std::string(10'000, '\x7f');
  for (const char* name : {"short", "text", "damaged", "missing"}) {
    EXPECT_EQ(function_at(folder / name, 100), "") << name;
  }
  EXPECT_EQ(function_at(folder.path(), 100), "");
}

}  // namespace
}  // namespace manta
