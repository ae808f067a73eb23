#include <sys/resource.h>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"

namespace manta {
namespace {

// Nothing if there is no limit.
std::string describe_limit(__rlimit_resource_t resource, rlim_t unit, const char* what) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return str(", ", limit.rlim_cur / unit, what);
}

}  // namespace

std::string describe_limits() {
  std::string limits = describe_limit(RLIMIT_AS, 1 << 20, " MiB of address space (ulimit -v)") +
                       describe_limit(RLIMIT_DATA, 1 << 20, " MiB of data (ulimit -d)") +
                       describe_limit(RLIMIT_NPROC, 1, " processes and threads (ulimit -u)") +
                       describe_limit(RLIMIT_NOFILE, 1, " open files (ulimit -n)");
  return "limits of this process: " + (limits.empty() ? "none of its own" : limits.substr(2)) +
         "; a container may have others, of memory and of processes";
}

}  // namespace manta
