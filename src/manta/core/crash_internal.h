#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "manta/core/engine_internal.h"

namespace manta {

// A worker that crashes writes down where, with system calls and libgcc's unwinder only (which is
// loaded before, and takes no lock): addresses of its stack and the libraries that they lie in. If
// that takes longer than 10 seconds, SIGALRM ends the worker. Its parent, which is in good health,
// turns that into names once the worker has ended, and puts them into the worker's log and into
// what it tells of its end.

/// The file in the run's folder into which a process writes its crash.
std::string crash_file(const std::string& session_folder, ProcessId process);

/// From here on a crash of this process (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) is written to
/// `file`, an uncaught exception's what() with it; afterwards the signal does what it always does.
/// A signal or std::terminate for which the program has a handler of its own is left to that, and
/// so are all signals under a sanitizer, which reports crashes itself. A stack overflow is written
/// down only if it happens in the calling thread, which gets a SignalStack, or in one of
/// start_thread: threads that users or libraries start have none, and nothing is known of theirs.
void record_crashes(const std::string& file);

/// What a worker wrote down, with names.
struct Crash {
  std::string thread;
  std::string address;   ///< That could not be accessed, such as "0x10". Empty if that is unknown.
  std::string uncaught;  ///< "uncaught std::runtime_error: text", if that ended it.
  std::vector<std::string> frames;  ///< The innermost first.
  size_t first = 0;       ///< The first of them that is no part of the C and C++ libraries.
  size_t end = SIZE_MAX;  ///< From here on they are Manta's own: what called the user's function.

  /// The frames as lines, from `begin` on, at most `count`.
  std::string lines(size_t begin, size_t count) const;
};

/// Reads and removes the file, which may be cut anywhere. Nothing if the process left none.
std::optional<Crash> take_crash(const std::string& file);

/// Completes `exit` by the crash that the process left, and appends that to the process's log.
void report_crash(const std::string& file, const ProcessSpec& spec, pid_t pid, ProcessExit* exit);

}  // namespace manta
