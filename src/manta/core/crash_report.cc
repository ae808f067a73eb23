// The part that runs in the parent of a process that has crashed.

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "manta/base/error_internal.h"
#include "manta/core/crash_internal.h"
#include "manta/core/elf_symbols_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {
namespace {

constexpr size_t kMaxName = 160;      // of a function: a template's may fill a page
constexpr size_t kFramesInError = 8;  // the log has all
constexpr std::streamsize kMaxRecord = 64 << 10;

// Whether a crash in this module is the caller's fault.
bool is_system_library(const std::string& module) {
  std::string name = std::filesystem::path(module).filename();
  for (const char* prefix : {"libc.so", "libc-", "libstdc++", "libgcc_s", "libm.so", "libpthread",
                             "ld-linux", "linux-vdso", "libasan", "libtsan", "libubsan"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

std::string crash_file(const std::string& session_folder, ProcessId process) {
  return str(session_folder, "/crash-", process);
}

std::string Crash::lines(size_t begin, size_t count) const {
  std::string text;
  for (size_t i = begin; i < frames.size() && i - begin < count; ++i) {
    text += str(text.empty() ? "" : "\n", "  #", i, " ", frames[i]);
  }
  return text;
}

std::optional<Crash> take_crash(const std::string& file) {
  std::string record;
  {
    std::ifstream in(file, std::ios::binary);
    if (!in) return std::nullopt;
    record.resize(kMaxRecord);
    in.read(record.data(), kMaxRecord);
    record.resize(static_cast<size_t>(in.gcount()));
  }
  ::unlink(file.c_str());
  // The process may have been killed while it wrote: a line without an end is cut.
  record.resize(record.rfind('\n') + 1);
  Crash crash;
  bool found_first = false;
  std::istringstream lines(record);
  for (std::string line; std::getline(lines, line);) {
    size_t space = line.find(' ');
    std::string key = line.substr(0, space);
    std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (key == "thread") crash.thread = rest;
    if (key == "address") crash.address = rest;
    if (key == "uncaught") crash.uncaught = rest;
    if (key != "frame") continue;
    size_t end_of_offset = rest.find(' ');
    if (end_of_offset == std::string::npos) continue;
    std::string offset = rest.substr(0, end_of_offset);
    std::string module = rest.substr(end_of_offset + 1);
    if (module == "?") {
      crash.frames.push_back(offset + " (no code of any library)");
      continue;
    }
    // The program itself has no name in the record: this process runs the same program.
    std::string path = module.empty() ? "/proc/self/exe" : module;
    std::string name = function_at(path, std::strtoull(offset.c_str(), nullptr, 16));
    name.resize(std::min(name.size(), name.find(" [clone ")));  // a function's cold part
    if (name.size() > kMaxName) name = name.substr(0, kMaxName) + "...";
    std::error_code ignored;
    std::string where = module.empty()
                            ? std::filesystem::read_symlink(path, ignored).filename().string()
                            : std::filesystem::path(module).filename().string();
    bool ends_process =
        name.starts_with("manta::check_failed(") || name.starts_with("manta::on_terminate(");
    // Without optimisation the standard library's templates are functions of the program.
    bool is_of_library = is_system_library(module) || name.starts_with("std::");
    if (!found_first && !is_of_library && !ends_process) {
      found_first = true;
      crash.first = crash.frames.size();
    }
    if (name.starts_with("manta::run_call(") && crash.end == SIZE_MAX) {
      crash.end = std::max(crash.first + 1, crash.frames.size());
    }
    crash.frames.push_back(name.empty() ? where + "+" + offset
                                        : name + " (" + where + "+" + offset + ")");
  }
  return crash;
}

void report_crash(const std::string& file, const ProcessSpec& spec, pid_t pid, ProcessExit* exit) {
  auto crash = take_crash(file);
  if (!crash) return;
  UniqueFd log(::open(spec.log_path.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (log && ::fstat(log.get(), &info) == 0) exit->log_end = info.st_size;
  if (!crash->frames.empty()) {
    std::string function = crash->frames[crash->first];
    exit->crash = " in " + function.substr(0, function.rfind(" ("));
    exit->stack = crash->lines(crash->first, std::min(kFramesInError, crash->end - crash->first));
  }
  if (!crash->address.empty()) exit->crash += ", accessing address " + crash->address;
  if (!crash->uncaught.empty()) exit->crash += ": " + crash->uncaught;
  std::string text =
      str("manta: ", spec.name, " (pid ", pid, ") ", exit->describe(), ", in thread '",
          crash->thread, "':\n", crash->lines(0, crash->frames.size()), "\n");
  if (log) (void)!::write(log.get(), text.data(), text.size());
}

}  // namespace manta
