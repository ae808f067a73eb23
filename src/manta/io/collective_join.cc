// How a member of a group takes its seat and comes to know the others.

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "manta/base/error_internal.h"
#include "manta/io/collective_member_internal.h"
#include "manta/io/futex_internal.h"

namespace manta {

CollectiveMember::CollectiveMember(UniqueFd region, int rank, int size,
                                   std::chrono::nanoseconds timeout)
    : rank_(rank), size_(size), timeout_(timeout) {
  if (size < 1 || size > kMaxCollectiveRanks || rank < 0 || rank >= size) {
    throw Error(ErrorKind::kInvalidArgument,
                str("rank ", rank, " of a group of ", size, ": there must be 1 to ",
                    kMaxCollectiveRanks, " ranks, counted from 0"));
  }
  // With fewer cores than ranks, a rank that spins keeps the rank it waits for from running.
  cpu_set_t allowed;
  bool known = ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
  may_spin_ = (known ? CPU_COUNT(&allowed) : ::sysconf(_SC_NPROCESSORS_ONLN)) >= size;

  mapping_ = SharedRegion::adopt(std::move(region), collective_region_bytes(size), true);
  region_ = reinterpret_cast<RegionHeader*>(mapping_.data());
  if (region_->magic != kRegionMagic || region_->version != kRegionVersion ||
      region_->size != size) {
    throw Error(ErrorKind::kCorrupt,
                str("a group's shared memory is of version ", region_->version, " for ",
                    region_->size, " ranks; version ", kRegionVersion, " for ", size,
                    " is needed: run one build with one group size"));
  }
  headers_ = reinterpret_cast<RankHeader*>(region_ + 1);
  slots_ = reinterpret_cast<std::byte*>(mapping_.data()) + collective_region_bytes(size) -
           2 * static_cast<size_t>(size) * kCollectiveSlotBytes;

  auto deadline = Deadline::after(timeout);
  processes_.resize(static_cast<size_t>(size));
  polls_.assign(static_cast<size_t>(size), pollfd{.fd = -1, .events = POLLIN, .revents = 0});
  take_seat();
  enter(JoinPhase::kAnnounced, deadline);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) watch(peer);
  }
  // Once every rank watches every other, one more sign of life proves that the process watched is
  // the one that announced itself, and not a later process with the same id.
  enter(JoinPhase::kWatching, deadline);
  enter(JoinPhase::kReady, deadline);
}

CollectiveMember::~CollectiveMember() {
  header(rank_).phase.store(JoinPhase::kLeft);
  futex_wake(header(rank_).published);
}

void CollectiveMember::take_seat() {
  auto expected = JoinPhase::kAbsent;
  if (!header(rank_).phase.compare_exchange_strong(expected, JoinPhase::kClaimed)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("rank ", rank_, " of a group of ", size_, " was taken before, by process ",
                    header(rank_).pid, ": each rank joins once, and each new group needs a new ",
                    "create_shm_region"));
  }
  header(rank_).pid = static_cast<int32_t>(::getpid());
}

void CollectiveMember::enter(JoinPhase phase, const Deadline& deadline) {
  header(rank_).phase.store(phase);
  futex_wake(header(rank_).phase);
  std::vector<int> absent;
  for (;;) {
    throw_if_failed();
    auto dead = dead_peer();
    absent.clear();
    for (int peer = 0; peer < size_; ++peer) {
      if (header(peer).phase.load() < phase) absent.push_back(peer);
    }
    if (absent.empty()) return;
    if (dead) {
      fail_and_throw(ErrorKind::kWorkerLost,
                     str("the process of rank ", *dead, " (", header(*dead).pid,
                         ") ended while its group of ", size_, " ranks was forming"));
    }
    if (deadline.passed()) {
      fail_and_throw(ErrorKind::kTimeout,
                     str("a group of ", size_, " ranks did not form: ", name_ranks(absent),
                         " did not join within ", in_seconds(timeout_)));
    }
    auto& word = header(absent[0]).phase;
    auto seen = word.load();
    if (seen < phase) futex_wait(word, seen, kSlice);
  }
}

void CollectiveMember::watch(int peer) {
  int pid = header(peer).pid;
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process && errno != ESRCH) {
    int error = errno;
    fail_and_throw(ErrorKind::kIo, str("rank ", rank_, " cannot watch rank ", peer, " (process ",
                                       pid, "): ", errno_text(error)));
  }
  if (!process) {
    fail_and_throw(ErrorKind::kWorkerLost,
                   str("the process of rank ", peer, " (", pid, ") ended while its group of ",
                       size_, " ranks was forming"));
  }
  polls_[static_cast<size_t>(peer)].fd = process.get();
  processes_[static_cast<size_t>(peer)] = std::move(process);
}

}  // namespace manta
