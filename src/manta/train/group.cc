// A group's processes: their start, their end, and what is sent to them. What they say is in
// group_messages.cc.

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>

#include "manta/base/error_internal.h"
#include "manta/base/log.h"
#include "manta/base/random_token_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/how_it_ended_internal.h"
#include "manta/core/init.h"
#include "manta/core/session_folder_internal.h"
#include "manta/io/collective_region_internal.h"
#include "manta/train/active_runs_internal.h"
#include "manta/train/group_internal.h"

namespace manta::train {
namespace {

// How long a process that was killed may take to end: the kernel may have to write its core dump,
// or wait for a disk.
constexpr std::chrono::seconds kStopDeadline{30};

std::string new_address() {
  static std::atomic<int> count{0};
  return str(current_session_folder(), "/train-", count++, ".sock");
}

std::string member_name(int rank) {
  return rank == kDataReader ? "data-reader" : str("rank-", rank);
}

}  // namespace

Group::Group(const Training& training, Plan plan, EventQueue& events)
    : training_(training),
      plan_(std::move(plan)),
      events_(events),
      token_(random_token()),
      address_(new_address()),
      listener_(listen_unix(address_)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  try {
    if (!wake_) throw_errno("eventfd");
    start();
  } catch (...) {
    stop();
    ::unlink(address_.c_str());
    throw;
  }
}

// Workers and reader in one gang: nobody waits for one that has no place yet.
void Group::start() {
  std::vector<ActorOptions> options;
  for (int rank = 0; rank < training_.scaling.num_workers; ++rank) {
    options.emplace_back().resources = resources_of_worker(training_.scaling);
    ranks_.push_back(rank);
  }
  if (!training_.datasets.empty()) {
    options.emplace_back();
    ranks_.push_back(kDataReader);
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    std::string name = member_name(ranks_[i]);
    options[i].process_name = ActiveRun::count() > 1 ? str(plan_.run_name, "/", name) : name;
    options[i].log_path = str(plan_.run_folder, "/logs/", name, ".log");
    options[i].labels = {{"role", "driver"}};  // they meet at a socket in the driver's folder
  }
  members_ = actor_group<Member>(options);
  for (size_t i = 0; i < members_.size(); ++i) {
    runs_.push_back(members_[i].call<&Member::run>(address_, token_, plan_.attempt, ranks_[i]));
  }
  server_ =
      start_thread("the thread that hears a training group", [this] { run_thread(&Group::serve); });
  watch_->events = &events_;
  for (size_t i = 0; i < runs_.size(); ++i) watch(i);
}

Group::~Group() {
  stop();
  ::unlink(address_.c_str());
}

// What goes wrong in a thread of the driver's ends the attempt, not the program.
void Group::run_thread(void (Group::*body)()) {
  Failure failure{kDriver, ErrorKind::kIo, "", false};
  try {
    return (this->*body)();
  } catch (const Error& error) {
    failure.kind = error.kind();
    failure.message = error.what();
  } catch (const std::exception& error) {
    failure.message = error.what();
  }
  events_.push(Failed{plan_.attempt, std::move(failure)});
}

bool Group::is_stopping() {
  std::lock_guard lock(mutex_);
  return stopping_;
}

void Group::wake() {
  uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

void Group::stop() {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  wake();
  if (server_.joinable()) server_.join();
  {
    std::lock_guard lock(watch_->mutex);
    watch_->events = nullptr;
  }
  connections_.clear();  // a data reader ends when its workers have gone
  if (runs_.empty()) return;
  auto [done, running] = wait(runs_, static_cast<int>(runs_.size()), std::chrono::seconds(0));
  for (size_t i = 0; i < runs_.size(); ++i) {
    bool has_ended = std::find_if(done.begin(), done.end(), [&](const auto& ref) {
                       return ref.handle() == runs_[i].handle();
                     }) != done.end();
    if (!has_ended) kill(members_[i]);
  }
  auto [ended, left] = wait(runs_, static_cast<int>(runs_.size()), kStopDeadline);
  if (!left.empty()) warn_of_those_left(left);
  for (const auto& run : runs_) {
    try {
      get(run, std::chrono::seconds(0));
    } catch (const Error&) {  // it was killed, or has been heard of before
    }
  }
  members_.clear();
}

void Group::warn_of_those_left(const std::vector<ObjectRef<void>>& left) const {
  std::string names;
  for (const auto& ref : left) {
    auto place = std::find_if(runs_.begin(), runs_.end(),
                              [&](const auto& run) { return run.handle() == ref.handle(); });
    int rank = ranks_[static_cast<size_t>(place - runs_.begin())];
    names += str(names.empty() ? "" : ", ", member_name(rank));
  }
  log_warning(str("of attempt ", plan_.attempt, ", these processes have not ended ",
                  kStopDeadline.count(), " s after they were killed: ", names,
                  "; what they hold, such as CPUs and memory, is not free"));
}

void Group::acknowledge(int64_t index, bool committed) {
  {
    std::lock_guard lock(mutex_);
    to_acknowledge_.push_back({index, committed});
  }
  wake();
}

void Group::watch(size_t member) {
  on_ready(runs_[member], [watch = watch_, run = runs_[member], rank = ranks_[member],
                           attempt = plan_.attempt] {
    std::lock_guard lock(watch->mutex);
    if (!watch->events) return;
    try {
      get(run, std::chrono::seconds(0));
    } catch (const Error& error) {
      watch->events->push(Failed{attempt, {rank, error.kind(), how_it_ended(error), false}, {}});
    }
  });
}

void Group::begin() {
  int workers = training_.scaling.num_workers;
  BeginReading reading;
  reading.timeout_ms = training_.run.collective_timeout.count();
  // Readers of several runs share the processors.
  int runs = std::max(1, ActiveRun::count());
  reading.threads = std::max(1, static_cast<int>(nodes().front().total.cpus) / runs);
  for (const auto& [name, dataset] : training_.datasets) {
    reading.plans[name] = data::WirePlan(*dataset.plan());
  }
  SharedFd region;
  if (workers > 1 && workers <= training_.max_in_shared_memory)
    region = SharedFd(create_shm_region(workers));
  for (int rank = 0; rank < workers; ++rank) {
    BeginTraining message;
    message.attempt = plan_.attempt;
    message.rank = rank;
    message.world_size = workers;
    message.run_name = plan_.run_name;
    message.run_folder = plan_.run_folder;
    message.loop = training_.loop;
    message.loop_takes_config = training_.loop_takes_config;
    message.config = training_.config;
    message.framework = training_.framework;
    message.prepare_worker = training_.prepare_worker;
    message.next_report = plan_.next_report;
    message.checkpoint = plan_.checkpoint;
    for (const auto& [name, dataset] : training_.datasets) {
      auto from = plan_.positions.find(name);
      message.datasets[name] = from == plan_.positions.end() ? data::Position() : from->second;
      if (auto epochs = data::epochs_of(*dataset.plan())) message.epochs[name] = *epochs;
    }
    message.timeout_ms = training_.run.collective_timeout.count();
    message.max_in_flight = training_.run.checkpoint_config.max_in_flight;
    message.region = region;
    if (!training_.datasets.empty()) {
      auto [worker_end, reader_end] = socket_pair();
      message.feed = SharedFd(std::move(worker_end));
      reading.workers.push_back(SharedFd(std::move(reader_end)));
    }
    send(rank, message);
  }
  if (!training_.datasets.empty()) send(kDataReader, reading);
  events_.push(GroupStarted{plan_.attempt});
}

}  // namespace manta::train
