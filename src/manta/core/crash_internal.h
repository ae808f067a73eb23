#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "manta/core/engine_internal.h"

namespace manta {

// A worker that crashes records the addresses of its stack and the libraries that contain them. It
// uses only system calls and libgcc's unwinder (which is loaded before, and takes no lock). If that
// takes longer than 10 seconds, SIGALRM ends the worker. Once the worker has ended, its parent,
// which is intact, turns the addresses into names, and puts them into the worker's log and into its
// report of the worker's end.

/// The file in the run's folder into which a process writes its crash.
std::string crash_file(const std::string& session_folder, ProcessId process);

/// From here on a crash of this process (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) is written to
/// `file`, an uncaught exception's what() with it; afterwards the signal does what it always does.
/// If the program has its own handler for a signal or for std::terminate, that handler stays. Under
/// a sanitizer, all signals are left to it, because it reports crashes itself. A stack overflow is
/// recorded only if it happens in the calling thread, which gets a SignalStack, or in a thread of
/// start_thread. Threads that users or libraries start have no SignalStack, so their overflows are
/// not recorded.
void record_crashes(const std::string& file);

/// What a crashed worker recorded, with names.
struct Crash {
  std::string thread;
  std::string address;   ///< The address that could not be accessed, such as "0x10". Empty if
                         ///< unknown.
  std::string uncaught;  ///< "uncaught std::runtime_error: text", if an exception ended it.
  std::vector<std::string> frames;  ///< The innermost first.
  size_t first = 0;       ///< The first frame that is not part of the C and C++ libraries.
  size_t end = SIZE_MAX;  ///< From here on the frames are Manta's own, which called the user's
                          ///< function.

  /// At most `count` frames as lines, from `begin` on.
  std::string lines(size_t begin, size_t count) const;
};

/// Reads and removes the file, which may be cut anywhere. Nothing if the process left none.
std::optional<Crash> take_crash(const std::string& file);

/// Adds the crash that the process recorded to `exit`, and appends it to the process's log.
void report_crash(const std::string& file, const ProcessSpec& spec, pid_t pid, ProcessExit* exit);

}  // namespace manta
