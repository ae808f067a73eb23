#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/core/init.h"
#include "manta/train/file_internal.h"
#include "manta/train/started_workers_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {
namespace {

// How long a process that does nothing may take to answer, on a busy machine.
constexpr std::chrono::seconds kAnswerTime{30};

// Appends a log, from an offset on, to another file. Returns the offset of the log's end.
uint64_t append_from(const std::string& log, uint64_t begin, const std::string& folder,
                     const std::string& name) {
  std::filesystem::path path = log;
  UniqueFd from = open_file(path.parent_path(), path.filename(), O_RDONLY);
  if (check_regular(from.get(), log) < begin) begin = 0;  // it is a new file
  UniqueFd to = open_file(folder, name, O_WRONLY | O_CREAT | O_APPEND);
  std::string buffer(size_t{1} << 16, '\0');
  for (;;) {
    ssize_t got = ::pread(from.get(), buffer.data(), buffer.size(), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(str("reading '", log, "'"));
    if (got == 0) return begin;
    write_all(to.get(), buffer.data(), static_cast<size_t>(got), folder + "/" + name);
    begin += static_cast<uint64_t>(got);
  }
}

}  // namespace

StartedWorkers::StartedWorkers(ScalingConfig scaling, std::string log_folder)
    : scaling_(std::move(scaling)), log_folder_(std::move(log_folder)) {
  start();
}

void StartedWorkers::start() {
  std::vector<ActorOptions> options(static_cast<size_t>(scaling_.num_workers));
  for (size_t rank = 0; rank < options.size(); ++rank) {
    options[rank].resources = resources_of_worker(scaling_);
    options[rank].placement = scaling_.placement_strategy;
    options[rank].process_name = str("rank-", rank);
    options[rank].log_path = log_of(static_cast<int>(rank));
  }
  actors_ = actor_group<Member>(options);
  used_ = false;
}

const std::vector<ActorHandle<Member>>& StartedWorkers::actors() {
  if (actors_.empty()) {
    start();
  } else if (used_ && !all_there()) {
    log_warning("a worker has died since the last run: all are started anew");
    drop();
    start();
  }
  used_ = true;
  return actors_;
}

bool StartedWorkers::all_there() const {
  std::vector<ObjectRef<bool>> answers;
  for (const auto& actor : actors_) answers.push_back(actor.call<&Member::is_there>());
  auto deadline = std::chrono::steady_clock::now() + kAnswerTime;
  try {
    for (const auto& answer : answers) answer.get(deadline - std::chrono::steady_clock::now());
    return true;
  } catch (const Error&) {
    return false;
  }
}

void StartedWorkers::drop() {
  for (const auto& actor : std::exchange(actors_, {})) kill(actor);
}

void StartedWorkers::move_logs(const std::string& folder) try {
  for (int rank = 0; rank < scaling_.num_workers; ++rank) {
    std::string log = log_of(rank);
    std::error_code ignored;
    if (!std::filesystem::exists(log, ignored)) continue;
    moved_[rank] = append_from(log, moved_[rank], folder, std::filesystem::path(log).filename());
  }
} catch (const Error& error) {
  log_warning(str("the run does not have all that its workers wrote: ", error.what()));
}

std::string StartedWorkers::log_of(int rank) const {
  return str(log_folder_, "/rank-", rank, ".log");
}

}  // namespace manta::train
