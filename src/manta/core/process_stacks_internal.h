#pragma once

#include <sys/types.h>

#include <string>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"

namespace manta {

/// The stacks of all threads of another process of this machine, one line for each function, for
/// people who look for the cause of a hang. They are read from outside (ptrace), so the process
/// itself need not do anything: it may spin, wait, or be stopped by a signal, and is in the same
/// state afterwards. Each of its threads is stopped while its stack is read, for some milliseconds.
///
/// Throws nothing: if something cannot be found out, the text says why, e.g. that the process has
/// ended, that this user may not look (a container without CAP_SYS_PTRACE may only look at its own
/// descendants, or not at all), or that Debian's libdw1 is not installed. After the deadline,
/// threads are left out.
std::string process_stacks(pid_t pid, Deadline deadline);

}  // namespace manta
