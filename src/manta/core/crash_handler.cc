// The part that runs in a process that crashes: a signal handler may trust only system calls and
// plain memory, so there is no allocation, no lock, no stream. The one exception is the unwinder,
// which reads the stack. The stack may be damaged: a fault in the unwinder ends the process, and so
// does an alarm if the unwinder does not return.

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>

#include "manta/base/error_internal.h"
#include "manta/base/signal_stack_internal.h"
#include "manta/core/crash_internal.h"

namespace manta {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitizer = true;
#else
constexpr bool kSanitizer = false;
#endif

constexpr int kMaxFrames = 64;
constexpr unsigned kMostSeconds = 10;  // for writing the record
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

char crash_path[PATH_MAX];
char uncaught[1024];
pid_t watched_process = 0;
std::atomic<pid_t> crashing_thread{0};

// Text into a file, without an allocation.
class Writer {
 public:
  explicit Writer(int fd) : fd_(fd) {}
  ~Writer() { flush(); }
  Writer(const Writer&) = delete;

  Writer& text(const char* text) {
    for (; *text; ++text) put(*text);
    return *this;
  }
  Writer& hex(uint64_t number) {
    text("0x");
    int digits = 1;
    while (digits < 16 && number >> (4 * digits)) ++digits;
    while (digits-- > 0) put("0123456789abcdef"[(number >> (4 * digits)) & 15]);
    return *this;
  }

 private:
  void put(char c) {
    if (used_ == buffer_.size()) flush();
    buffer_[used_++] = c;
  }
  void flush() {
    (void)!::write(fd_, buffer_.data(), used_);
    used_ = 0;
  }

  const int fd_;
  std::array<char, 512> buffer_;
  size_t used_ = 0;
};

struct Registers {
  uintptr_t program_counter = 0;
  const uintptr_t* stack = nullptr;  // in a function that has just begun, its top holds the caller
};

Registers registers_of(const void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return {static_cast<uintptr_t>(machine.gregs[REG_RIP]),
          reinterpret_cast<const uintptr_t*>(machine.gregs[REG_RSP])};
#elif defined(__aarch64__)
  return {static_cast<uintptr_t>(machine.pc), nullptr};
#else
  (void)machine;
  return {};
#endif
}

void write_frame(Writer& out, uintptr_t address) {
  out.text("frame ");
  dl_find_object found{};
  if (::_dl_find_object(reinterpret_cast<void*>(address), &found) == 0) {
    out.hex(address - found.dlfo_link_map->l_addr).text(" ").text(found.dlfo_link_map->l_name);
  } else {
    out.hex(address).text(" ?");
  }
  out.text("\n");
}

void write_record(Writer& out, const siginfo_t* info, const void* context) {
  char thread[32] = {};
  ::prctl(PR_GET_NAME, thread);
  out.text("thread ").text(thread).text("\n");
  if (uncaught[0]) out.text("uncaught ").text(uncaught).text("\n");
  bool has_address = info->si_signo == SIGSEGV || info->si_signo == SIGBUS;
  if (has_address && info->si_code > 0) {
    out.text("address ").hex(reinterpret_cast<uintptr_t>(info->si_addr)).text("\n");
  }
  Registers registers = registers_of(context);
  void* frames[kMaxFrames];
  int count = ::backtrace(frames, kMaxFrames);
  // The first frames are this handler's own.
  int first = 0;
  while (first < count && reinterpret_cast<uintptr_t>(frames[first]) != registers.program_counter) {
    ++first;
  }
  ++first;
  write_frame(out, registers.program_counter);
  // After a call of a null pointer there is nothing to unwind from, but the caller is on the stack.
  dl_find_object found{};
  if (first >= count && registers.stack &&
      ::_dl_find_object(reinterpret_cast<void*>(registers.program_counter), &found) != 0) {
    write_frame(out, *registers.stack - 1);
  }
  // The addresses of the calls, not their return addresses, which may be in another function.
  for (; first < count; ++first) write_frame(out, reinterpret_cast<uintptr_t>(frames[first]) - 1);
}

// Ends the process if what follows takes too long.
void set_alarm() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGALRM, &standard, nullptr);
  sigset_t alarms;
  ::sigemptyset(&alarms);
  ::sigaddset(&alarms, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  ::alarm(kMostSeconds);
}

// Whether the instruction will not fail again when the handler returns: another process sent the
// signal, or the signal reports broken memory that has not been accessed yet.
bool comes_only_once(const siginfo_t& info) {
  return info.si_code <= 0 || (info.si_signo == SIGBUS && info.si_code == BUS_MCEERR_AO);
}

void write_record(const siginfo_t* info, const void* context) {
  int fd = ::open(crash_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return;
  {
    Writer out(fd);
    write_record(out, info, context);
  }
  ::close(fd);
}

void on_crash(int signal, siginfo_t* info, void* context) {
  int error = errno;
  auto thread = static_cast<pid_t>(::syscall(SYS_gettid));
  pid_t other = 0;
  if (::getpid() == watched_process) {  // not in a process that the user forked
    if (crashing_thread.compare_exchange_strong(other, thread)) {
      set_alarm();
      write_record(info, context);
      ::alarm(0);
    } else if (other != thread) {
      // The first thread's signal ends the process; until then this thread must not end it.
      for (int i = 0; i < 500; ++i) {
        timespec pause{0, 10'000'000};
        ::nanosleep(&pause, nullptr);
      }
    }
  }
  // Then happens what would have happened without this handler, including the core dump: the
  // instruction fails again, or the signal is sent again.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  errno = error;
  if (comes_only_once(*info)) ::syscall(SYS_tgkill, ::getpid(), thread, signal);
}

[[noreturn]] void on_terminate() {
  std::string what = "std::terminate was called without an exception";
  if (auto current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& error) {
      what = str("uncaught ", demangle(typeid(error).name()), ": ", error.what());
    } catch (...) {
      auto* type = abi::__cxa_current_exception_type();
      what = str("uncaught ", type ? demangle(type->name()) : "exception",
                 ", which is no std::exception");
    }
  }
  std::fprintf(stderr, "manta: %s\n", what.c_str());
  for (char& c : what) {
    if (c == '\n') c = ' ';
  }
  std::strncpy(uncaught, what.c_str(), sizeof(uncaught) - 1);
  std::abort();
}

}  // namespace

void record_crashes(const std::string& file) {
  if (std::get_terminate() == __gnu_cxx::__verbose_terminate_handler) {
    std::set_terminate(on_terminate);
  }
  if (kSanitizer || file.size() >= sizeof(crash_path)) return;
  std::strcpy(crash_path, file.c_str());
  watched_process = ::getpid();
  // Loads what it needs now: in the handler it must not.
  void* frame[1];
  ::backtrace(frame, 1);
  [[maybe_unused]] static auto* stack = new SignalStack;  // this thread's, until the process ends
  for (int signal : kSignals) {
    struct sigaction current {};
    if (::sigaction(signal, nullptr, &current) != 0 || current.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_sigaction = on_crash;
    // Not deferred: a crash in the handler itself must end the process, not hang it.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace manta
