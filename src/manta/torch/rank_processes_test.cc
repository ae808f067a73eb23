#include <ATen/Parallel.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "manta/base/error_internal.h"
#include "manta/torch/rank_processes_internal.h"

namespace manta::train {
namespace {

[[noreturn]] void run_rank(const std::function<void(const Seat&)>& body, const Seat& seat,
                           int text) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string outcome;
  try {
    at::set_num_threads(1);  // the parent may have run OpenMP
    body(seat);
  } catch (const Error& error) {
    outcome = str(kind_name(error.kind()), ": ", error.what());
  } catch (const std::exception& error) {
    outcome = error.what();
  }
  outcome.resize(std::min<size_t>(outcome.size(), 4096));  // what a pipe takes unread
  ssize_t written = ::write(text, outcome.data(), outcome.size());
  ::_exit(written == static_cast<ssize_t>(outcome.size()) ? 0 : 1);
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> join(BackendKind kind, const Seat& seat) {
  GroupOptions options{.timeout = seat.timeout, .watch = seat.watch};
  if (kind == BackendKind::kShm) {
    return make_shm_backend(UniqueFd(::dup(seat.region)), seat.rank, seat.size, options);
  }
  auto store = c10::make_intrusive<c10d::FileStore>(seat.store, seat.size);
  if (kind == BackendKind::kHosts) {
    Place place;
    place.node_rank = seat.rank % 2;
    place.num_nodes = std::min(seat.size, 2);
    place.local_rank = seat.rank / 2;
    place.local_size = (seat.size + 1 - place.node_rank) / 2;
    for (int rank = 0; rank < seat.size; ++rank) place.node_ranks.push_back(rank % 2);
    return make_hosts_backend(store, UniqueFd(::dup(seat.host_region)), seat.rank, seat.size, place,
                              options);
  }
  return make_gloo_backend(store, seat.rank, seat.size, options);
}

RankProcesses::RankProcesses(int size, const std::function<void(const Seat&)>& body)
    : region_(create_shm_region(size)) {
  for (int host = 0; host < 2; ++host)
    host_regions_.push_back(create_shm_region(std::max(1, (size + 1 - host) / 2)));
  for (int rank = 0; rank < size; ++rank) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe");
    UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    pid_t pid = ::fork();
    if (pid < 0) throw_errno("fork");
    if (pid == 0) {
      run_rank(body,
               {.rank = rank,
                .size = size,
                .region = region_.get(),
                .host_region = host_regions_[static_cast<size_t>(rank % 2)].get(),
                .store = folder_ / "store"},
               write_end.get());
    }
    processes_.push_back({.pid = pid, .text = std::move(read_end)});
  }
}

RankProcesses::~RankProcesses() {
  for (auto& process : processes_) {
    if (process.ended) continue;
    ::kill(process.pid, SIGKILL);
    while (::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void RankProcesses::signal(int rank, int number) {
  auto& process = processes_.at(static_cast<size_t>(rank));
  if (!process.ended && ::kill(process.pid, number) != 0) throw_errno("kill");
}

std::string RankProcesses::outcome(int rank) {
  auto& process = processes_.at(static_cast<size_t>(rank));
  if (process.ended) return process.outcome;
  int status = 0;
  while (::waitpid(process.pid, &status, 0) < 0) {
    if (errno != EINTR) throw_errno("waitpid");
  }
  process.ended = true;
  char text[4096];
  ssize_t length = ::read(process.text.get(), text, sizeof(text));
  if (length > 0) process.outcome.assign(text, static_cast<size_t>(length));
  if (WIFSIGNALED(status)) process.outcome = str("signal ", WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    process.outcome = str("exit status ", WEXITSTATUS(status));
  }
  return process.outcome;
}

}  // namespace manta::train
