#include <cerrno>
#include <cstring>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/names_internal.h"
#include "manta/io/core_choice_internal.h"

namespace manta {

std::optional<cpu_set_t> CoreChoice::leave(uint32_t step, const cpu_set_t& allowed,
                                           std::span<const int> ranks) {
  if (shared_step_ == step) return std::nullopt;
  auto before = std::exchange(shared_step_, step);
  if (!before || step - *before > 2 || CPU_COUNT(&allowed) > kMostCores) return std::nullopt;
  cpu_set_t others = allowed;
  for (int cpu : ranks) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_CLR(static_cast<size_t>(cpu), &others);
  }
  if (CPU_COUNT(&others) == 0) return std::nullopt;
  shared_step_.reset();
  return others;
}

bool move_to_core(const cpu_set_t& cores) {
  cpu_set_t allowed, all, now;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return false;
  if (::sched_setaffinity(0, sizeof(cores), &cores) != 0) return false;
  // Linux remembers the cores that a thread asks for, even those that its cpuset does not allow
  // now. So the thread asks for all cores, unless that gives it more than it had.
  std::memset(&all, 0xff, sizeof(all));
  bool free = ::sched_setaffinity(0, sizeof(all), &all) == 0 &&
              ::sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &allowed);
  if (!free && ::sched_setaffinity(0, sizeof(allowed), &allowed) != 0) {
    log_warning(str("a thread that moved to another core cannot use all of its cores any more: ",
                    std::strerror(errno)));
  }
  return true;
}

}  // namespace manta
