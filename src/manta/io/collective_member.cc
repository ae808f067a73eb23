#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/io/collective_member_internal.h"
#include "manta/io/futex_internal.h"

namespace manta {
namespace {

constexpr int kYields = 20;
// How long a rank spins before it sleeps: the first where its waits are usually long, the second
// where they are not.
constexpr std::chrono::microseconds kLeastSpin{50};
constexpr std::chrono::microseconds kMostSpin{1000};
// After this time it yields the processor between two looks: there may be more processes at work
// than processors, e.g. the ranks of another group, or those of another host in a test.
constexpr std::chrono::microseconds kSpinAlone{5};
// If a yield takes this long, other processes need the processor for their work.
constexpr std::chrono::microseconds kOthersRan{250};

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace

std::string name_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < ranks.size(); ++i) text += str(i == 0 ? " " : ", ", ranks[i]);
  return text;
}

std::string in_seconds(std::chrono::nanoseconds time) {
  return str(std::chrono::duration<double>(time).count(), " s");
}

const char* name_of(CollectiveKind kind) {
  constexpr const char* kNames[] = {"barrier", "broadcast",      "allreduce",
                                    "reduce",  "allgather",      "gather",
                                    "scatter", "reduce_scatter", "alltoall"};
  auto index = static_cast<size_t>(kind);
  return index < std::size(kNames) ? kNames[index] : "unknown collective";
}

std::string describe(const CollectiveCall& call) {
  std::string text = name_of(call.kind);
  switch (call.kind) {
    case CollectiveKind::kAllreduce:
    case CollectiveKind::kReduce:
    case CollectiveKind::kReduceScatter:
      text += str(" (", reduce_name(call.reduce), ")");
      break;
    default:
      break;
  }
  if (call.root >= 0) {
    text += str(call.kind == CollectiveKind::kReduce || call.kind == CollectiveKind::kGather
                    ? " to rank "
                    : " from rank ",
                call.root);
  }
  if (call.kind != CollectiveKind::kBarrier && call.kind != CollectiveKind::kAlltoall) {
    text += str(" of ", call.bytes, " bytes of ", element_name(call.type));
  }
  if (call.step >= 0) text += str(", of step ", call.step);
  return text;
}

bool CollectiveMember::has_published(int rank, uint32_t steps) const {
  // The difference, so that the counter may wrap around.
  return static_cast<int32_t>(header(rank).published.load(std::memory_order_acquire) - steps) >= 0;
}

bool CollectiveMember::all_published(uint32_t steps) const {
  for (int peer = 0; peer < size_; ++peer) {
    if (!has_published(peer, steps)) return false;
  }
  return true;
}

void CollectiveMember::publish(const CollectiveCall* call) {
  auto& own = header(rank_);
  if (call) own.calls[step_ % 2] = *call;
  own.cpu.store(::sched_getcpu(), std::memory_order_relaxed);
  ++step_;
  // Sequentially consistent, like the increment in sleep(): either the sleeper sees this step, or
  // this thread sees the sleeper.
  own.published.store(step_);
  if (own.sleepers.load() != 0) futex_wake(own.published);
}

void CollectiveMember::wait(const CollectiveCall& call, const Deadline& deadline) {
  uint32_t steps = step_;
  auto begin = Clock::now();
  for (int peer = 0; peer < size_; ++peer) {
    if (has_published(peer, steps) || spin(peer, steps)) continue;
    wait_for(peer, steps, call, deadline);
  }
  usual_wait_ +=
      (std::min<std::chrono::nanoseconds>(Clock::now() - begin, 2 * kMostSpin) - usual_wait_) / 8;
}

void CollectiveMember::wait_for(int peer, uint32_t steps, const CollectiveCall& call,
                                const Deadline& deadline) {
  for (;;) {
    sleep(peer, steps);
    if (has_published(peer, steps)) return;
    check_peers(call, steps);
    if (!deadline.passed()) continue;
    std::vector<int> absent;
    for (int other = 0; other < size_; ++other) {
      if (!has_published(other, steps)) absent.push_back(other);
    }
    if (absent.empty()) return;
    fail_and_throw(
        ErrorKind::kTimeout,
        str(describe(call), ", operation ", call.sequence, " of a group of ", size_,
            " ranks: ", name_ranks(absent), " did not arrive within ", in_seconds(timeout_),
            " (the run's collective_timeout); ", absent.size() == 1 ? "it is" : "they are",
            " stopped, slow, or did not make the same call"));
  }
}

// Falling asleep and being woken costs more than most waits for ranks that take the same short
// steps: with sleep, up to a third of the steps were lost. Where waits are long, spinning only
// takes a core from other threads.
std::chrono::nanoseconds CollectiveMember::spin_time() const {
  return usual_wait_ < kMostSpin ? kMostSpin : kLeastSpin;
}

bool CollectiveMember::spin(int rank, uint32_t steps) {
  if (!may_spin_) {
    for (int i = 0; i < kYields; ++i) {
      ::sched_yield();
      if (has_published(rank, steps)) return true;
    }
    return false;
  }
  // Spinning on the core that the other rank needs is pointless.
  bool same_core = header(rank).cpu.load(std::memory_order_relaxed) == ::sched_getcpu();
  if (same_core && !leave_core(steps)) return false;
  auto begin = Clock::now();
  const auto most = spin_time();
  for (auto now = begin; now - begin < most;) {
    for (int i = 0; i < 32; ++i) {
      pause_cpu();
      if (has_published(rank, steps)) return true;
    }
    bool alone = now - begin < kSpinAlone;
    if (!alone) ::sched_yield();
    auto before = std::exchange(now, Clock::now());
    if (!alone && now - before > kOthersRan) return has_published(rank, steps);
  }
  return false;
}

bool CollectiveMember::leave_core(uint32_t steps) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return false;
  std::vector<int> cores;
  for (int peer = 0; peer < size_; ++peer) {
    cores.push_back(header(peer).cpu.load(std::memory_order_relaxed));
  }
  auto others = core_choice_.leave(steps, allowed, cores);
  if (!others || !move_to_core(*others)) return false;
  header(rank_).cpu.store(::sched_getcpu(), std::memory_order_relaxed);
  return true;
}

void CollectiveMember::sleep(int rank, uint32_t steps) {
  auto& peer = header(rank);
  peer.sleepers.fetch_add(1);
  uint32_t seen = peer.published.load();
  if (static_cast<int32_t>(seen - steps) < 0 && region_->failed.load() == FailureState::kNone &&
      peer.phase.load() != JoinPhase::kLeft) {
    futex_wait(peer.published, seen, kSlice);
  }
  peer.sleepers.fetch_sub(1);
}

void CollectiveMember::check_peers(const CollectiveCall& call, uint32_t steps) {
  auto dead = dead_peer();
  std::optional<int> left;
  for (int peer = 0; peer < size_; ++peer) {
    if (header(peer).phase.load() == JoinPhase::kLeft) left = peer;
  }
  // If a rank ends or leaves after its last call, all ranks have published, and this rank sees that
  // now. Hence the order: first who is gone, then who has published, then whether the group has
  // failed.
  if (all_published(steps)) return;
  throw_if_failed();
  if (dead) {
    fail_and_throw(
        ErrorKind::kWorkerLost,
        str("the process of rank ", *dead, " (", header(*dead).pid, ") ended during ",
            describe(call), ", operation ", call.sequence, " of a group of ", size_, " ranks"));
  }
  if (left) {
    fail_and_throw(
        ErrorKind::kWorkerLost,
        str("rank ", *left, " left its group of ", size_, " ranks during or before ",
            describe(call), ", operation ", call.sequence, ": all ranks must make the same calls"));
  }
}

std::optional<int> CollectiveMember::dead_peer() {
  if (::poll(polls_.data(), polls_.size(), 0) <= 0) return std::nullopt;
  for (size_t peer = 0; peer < polls_.size(); ++peer) {
    if (polls_[peer].revents != 0) return static_cast<int>(peer);
  }
  return std::nullopt;
}

void CollectiveMember::check_calls(uint32_t step) {
  const CollectiveCall first = header(0).calls[step % 2];
  for (int peer = 1; peer < size_; ++peer) {
    const CollectiveCall other = header(peer).calls[step % 2];
    bool same_call = other.kind == first.kind && other.bytes == first.bytes &&
                     other.type == first.type && other.reduce == first.reduce &&
                     other.root == first.root && other.sequence == first.sequence;
    if (same_call && (other.step == first.step || other.step < 0 || first.step < 0)) continue;
    if (same_call) {
      fail_and_throw(ErrorKind::kInvalidArgument,
                     str("the ranks are at different steps: rank ", peer, " at step ", other.step,
                         ", rank 0 at step ", first.step,
                         " of their epoch; between two exchanges every rank must take the same ",
                         "number of batches"));
    }
    fail_and_throw(ErrorKind::kInvalidArgument,
                   str("ranks made different calls at operation ", first.sequence, ": rank ", peer,
                       " called ", describe(other), " while rank 0 called ", describe(first),
                       "; all ranks must make the same calls in the same order"));
  }
}

void CollectiveMember::fail(ErrorKind kind, const std::string& message) {
  auto expected = FailureState::kNone;
  if (region_->failed.compare_exchange_strong(expected, FailureState::kWriting)) {
    region_->failure_kind = static_cast<int32_t>(kind);
    size_t length = std::min(message.size(), sizeof(region_->failure_message) - 1);
    std::memcpy(region_->failure_message, message.data(), length);
    region_->failure_message[length] = '\0';
    region_->failed.store(FailureState::kWritten);
  }
  for (int peer = 0; peer < size_; ++peer) {
    futex_wake(header(peer).published);
    futex_wake(header(peer).phase);
  }
}

void CollectiveMember::throw_if_failed() {
  if (failure_) throw *failure_;
  if (region_->failed.load(std::memory_order_acquire) == FailureState::kNone) return;
  // The rank that writes the message takes microseconds, unless it is killed at this very moment.
  auto deadline = Deadline::after(kSlice);
  while (region_->failed.load() != FailureState::kWritten && !deadline.passed()) ::sched_yield();
  if (region_->failed.load() == FailureState::kWritten) {
    failure_.emplace(static_cast<ErrorKind>(region_->failure_kind), region_->failure_message);
  } else {
    failure_.emplace(ErrorKind::kWorkerLost, str("a rank of a group of ", size_,
                                                 " ranks ended while it reported a failure"));
  }
  throw *failure_;
}

void CollectiveMember::fail_and_throw(ErrorKind kind, const std::string& message) {
  fail(kind, message);
  throw_if_failed();
  throw Error(kind, message);
}

}  // namespace manta
