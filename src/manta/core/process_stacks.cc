#include <dlfcn.h>
#include <elf.h>
#include <elfutils/libdwfl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/elf_symbols_internal.h"
#include "manta/core/process_stacks_internal.h"

namespace manta {
namespace {

constexpr size_t kMostThreads = 256;
constexpr size_t kMostFrames = 64;
constexpr size_t kLongestName = 200;  // a template's may fill a page
// A thread stops at once, unless it waits for a disk.
constexpr std::chrono::milliseconds kThreadStopDeadline{1000};

// ---- libdw of elfutils, which is loaded when it is needed: most programs never hang.

struct Unwinder {
  decltype(&dwfl_begin) begin = nullptr;
  decltype(&dwfl_end) end = nullptr;
  decltype(&dwfl_linux_proc_report) report = nullptr;
  decltype(&dwfl_report_end) report_end = nullptr;
  decltype(&dwfl_linux_proc_attach) attach = nullptr;
  decltype(&dwfl_linux_proc_find_elf) find_elf = nullptr;
  decltype(&dwfl_getthread_frames) visit_frames = nullptr;
  decltype(&dwfl_frame_pc) address_of_frame = nullptr;
  std::string error;  // why libdw cannot be used
};

template <class F>
void load_from(void* library, const char* name, F*& function, std::string& error) {
  function = reinterpret_cast<F*>(::dlsym(library, name));
  if (!function && error.empty()) error = str("it has no ", name);
}

Unwinder load_unwinder() {
  Unwinder unwinder;
  std::string& error = unwinder.error;
  void* library = ::dlopen("libdw.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (!library) {
    const char* why = ::dlerror();
    error = why ? why : "it cannot be loaded";
  } else {
    load_from(library, "dwfl_begin", unwinder.begin, error);
    load_from(library, "dwfl_end", unwinder.end, error);
    load_from(library, "dwfl_linux_proc_report", unwinder.report, error);
    load_from(library, "dwfl_report_end", unwinder.report_end, error);
    load_from(library, "dwfl_linux_proc_attach", unwinder.attach, error);
    load_from(library, "dwfl_linux_proc_find_elf", unwinder.find_elf, error);
    load_from(library, "dwfl_getthread_frames", unwinder.visit_frames, error);
    load_from(library, "dwfl_frame_pc", unwinder.address_of_frame, error);
  }
  if (!error.empty()) error = "stacks need Debian's package libdw1: " + error;
  return unwinder;
}

const Unwinder& the_unwinder() {
  static const Unwinder loaded = load_unwinder();
  return loaded;
}

// Does not look for debug information, which might be far away: programs contain their unwind
// tables.
int no_debug_info(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*,
                  GElf_Word, char**) {
  return -1;
}

int add_address(Dwfl_Frame* frame, void* addresses_of_thread) {
  auto& addresses = *static_cast<std::vector<uint64_t>*>(addresses_of_thread);
  Dwarf_Addr address = 0;
  bool is_exact = false;
  if (!the_unwinder().address_of_frame(frame, &address, &is_exact)) return DWARF_CB_ABORT;
  // The address of the call, not the return address, which may be in another function.
  addresses.push_back(is_exact ? address : address - 1);
  return addresses.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
}

// What libdw knows of a process.
class Unwinding {
 public:
  explicit Unwinding(pid_t pid) {
    callbacks_.find_elf = the_unwinder().find_elf;
    callbacks_.find_debuginfo = no_debug_info;
    session_ = the_unwinder().begin(&callbacks_);
    ready_ = session_ && the_unwinder().report(session_, pid) == 0 &&
             the_unwinder().report_end(session_, nullptr, nullptr) == 0 &&
             the_unwinder().attach(session_, pid, /*assume_ptrace_stopped=*/true) == 0;
  }
  ~Unwinding() {
    if (session_) the_unwinder().end(session_);
  }
  Unwinding(const Unwinding&) = delete;

  // The stack of a thread that is held.
  std::vector<uint64_t> addresses_of(pid_t thread) const {
    std::vector<uint64_t> addresses;
    if (ready_) the_unwinder().visit_frames(session_, thread, add_address, &addresses);
    return addresses;
  }

 private:
  Dwfl_Callbacks callbacks_{};
  Dwfl* session_ = nullptr;
  bool ready_ = false;
};

// ---- What an address means.

class AddressSpace {
 public:
  explicit AddressSpace(pid_t pid) {
    std::ifstream maps(str("/proc/", pid, "/maps"));
    for (std::string line; std::getline(maps, line);) add(line);
  }

  std::string describe(uint64_t address) {
    for (const Mapping& mapping : mappings_) {
      if (address < mapping.begin || address >= mapping.end) continue;
      if (!mapping.path.starts_with('/')) break;
      uint64_t offset = address - bias_of(mapping.path);
      std::string& name = names_[{mapping.path, offset}];
      if (name.empty()) name = function_at(mapping.path, offset);
      std::string text = name.substr(0, name.find(" [clone "));
      if (text.size() > kLongestName) text = text.substr(0, kLongestName) + "...";
      std::ostringstream place;
      place << std::filesystem::path(mapping.path).filename().string() << "+0x" << std::hex
            << offset;
      return text.empty() ? place.str() : str(text, " (", place.str(), ")");
    }
    std::ostringstream place;
    place << "0x" << std::hex << address << " (no code of any library)";
    return place.str();
  }

 private:
  struct Mapping {
    uint64_t begin = 0, end = 0;
    std::string path;
  };

  // "7f..-7f.. r-xp 00001000 fe:01 1234   /usr/lib/libc.so.6"
  void add(const std::string& line) {
    std::istringstream in(line);
    Mapping mapping;
    uint64_t offset = 0;
    char dash = 0;
    std::string rights, device, inode;
    in >> std::hex >> mapping.begin >> dash >> mapping.end >> rights >> offset >> device >> inode;
    std::getline(in >> std::ws, mapping.path);
    if (offset == 0 && !first_.contains(mapping.path)) first_[mapping.path] = mapping.begin;
    mappings_.push_back(std::move(mapping));
  }

  // What the loader adds to the addresses of the file.
  uint64_t bias_of(const std::string& path) {
    auto known = biases_.find(path);
    if (known != biases_.end()) return known->second;
    uint64_t bias = first_.contains(path) ? first_[path] : 0;
    std::ifstream file(path, std::ios::binary);
    Elf64_Ehdr header{};
    file.read(reinterpret_cast<char*>(&header), sizeof(header));
    if (file && header.e_type == ET_EXEC) bias = 0;
    return biases_[path] = bias;
  }

  std::vector<Mapping> mappings_;
  std::map<std::string, uint64_t> first_, biases_;
  std::map<std::pair<std::string, uint64_t>, std::string> names_;
};

// ---- One thread, which is held while this lives.

class HeldThread {
 public:
  explicit HeldThread(pid_t thread) : thread_(thread) {
    if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
      error_ = errno == EPERM ? "this process may not look at it (ptrace)" : errno_text(errno);
      return;
    }
    ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
    Deadline deadline = Deadline::after(kThreadStopDeadline);
    while (true) {
      int status = 0;
      pid_t found = ::waitpid(thread, &status, __WALL | WNOHANG);
      if (found == thread && WIFSTOPPED(status)) {
        holds_ = true;
        // A signal that was on its way is delivered when the thread goes on.
        if (status >> 16 == 0) signal_ = WSTOPSIG(status);
        return;
      }
      if (found == thread || (found < 0 && errno != EINTR)) {
        error_ = "it has ended";
        return;
      }
      if (deadline.passed()) {
        error_ = "it does not stop: it waits in the kernel, e.g. for a disk";
        return;  // the kernel releases the thread when this one ends
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  ~HeldThread() {
    if (holds_) ::ptrace(PTRACE_DETACH, thread_, nullptr, signal_);
  }
  HeldThread(const HeldThread&) = delete;
  HeldThread& operator=(const HeldThread&) = delete;

  const std::string& error() const { return error_; }

 private:
  const pid_t thread_;
  bool holds_ = false;
  long signal_ = 0;
  std::string error_;
};

std::string name_of_thread(pid_t pid, pid_t thread) {
  std::ifstream in(str("/proc/", pid, "/task/", thread, "/comm"));
  std::string name;
  std::getline(in, name);
  return name;
}

// "R (running)"
std::string state_of_thread(pid_t pid, pid_t thread) {
  std::ifstream in(str("/proc/", pid, "/task/", thread, "/status"));
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("State:\t")) return line.substr(7);
  return "unknown";
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  std::error_code error;
  for (std::filesystem::directory_iterator it(str("/proc/", pid, "/task"), error), end;
       !error && it != end; it.increment(error)) {
    threads.push_back(std::stoi(it->path().filename().string()));
  }
  std::sort(threads.begin(), threads.end());  // the main thread first
  return threads;
}

std::string stacks_of(pid_t pid, Deadline deadline) {
  std::vector<pid_t> threads = threads_of(pid);
  if (threads.empty()) return "  it has ended\n";
  AddressSpace memory(pid);
  Unwinding unwinding(pid);
  std::string text;
  size_t done = 0;
  for (; done < threads.size() && done < kMostThreads && !deadline.passed(); ++done) {
    pid_t thread = threads[done];
    text += str("  thread ", thread, " '", name_of_thread(pid, thread), "', ",
                state_of_thread(pid, thread), ":\n");
    std::vector<uint64_t> addresses;
    {
      HeldThread held(thread);
      if (!held.error().empty()) {
        text += str("    ", held.error(), "\n");
        continue;
      }
      addresses = unwinding.addresses_of(thread);
    }
    for (size_t i = 0; i < addresses.size(); ++i)
      text += str("    #", i, " ", memory.describe(addresses[i]), "\n");
  }
  if (done < threads.size()) text += str("  and ", threads.size() - done, " more threads\n");
  return text;
}

}  // namespace

std::string process_stacks(pid_t pid, Deadline deadline) {
  if (!the_unwinder().error.empty()) return str("  ", the_unwinder().error, "\n");
  std::string text;
  try {
    // Uses a separate thread: when it ends, the kernel releases everything that it holds.
    std::thread reader = start_thread("the thread that takes stacks", [&] {
      try {
        text = stacks_of(pid, deadline);
      } catch (const std::exception& error) {
        text = str("  ", error.what(), "\n");
      }
    });
    reader.join();
  } catch (const Error& error) {
    text = str("  ", error.what(), "\n");
  }
  return text;
}

}  // namespace manta
