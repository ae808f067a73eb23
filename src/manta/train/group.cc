#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>

#include "manta/base/log.h"
#include "manta/base/random_token.h"
#include "manta/core/init.h"
#include "manta/core/session_folder_internal.h"
#include "manta/io/collective_region.h"
#include "manta/train/group_internal.h"

namespace manta::train {
namespace {

// A connection that does not say who it is.
constexpr std::chrono::seconds kJoinDeadline{10};
// Killed processes that are still there after this are a bug.
constexpr std::chrono::seconds kStopDeadline{30};

std::string new_address() {
  static std::atomic<int> count{0};
  return str(current_session_folder(), "/train-", count++, ".sock");
}

std::string process_name(int rank) {
  return rank == kDataReader ? "data-reader" : str("rank-", rank);
}

// Of a lost process core says first which call and actor it was, which mean nothing to the user.
std::string how_it_ended(const Error& error) {
  std::string message = error.what();
  size_t begin = error.kind() == ErrorKind::kWorkerLost ? message.find("its process ") : 0;
  return begin == std::string::npos ? message : message.substr(begin);
}

}  // namespace

void EventQueue::push(Event event) {
  std::lock_guard lock(mutex_);
  items_.push_back({std::move(event), {}});
  changed_.notify_one();
}

void EventQueue::push(SendProgress progress) {
  std::lock_guard lock(mutex_);
  items_.push_back({{}, std::move(progress)});
  changed_.notify_one();
}

std::optional<EventQueue::Item> EventQueue::pop(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline.at(), [&] { return !items_.empty(); }))
    return std::nullopt;
  Item item = std::move(items_.front());
  items_.pop_front();
  return item;
}

Group::Group(const Training& training, Plan plan, EventQueue& events)
    : training_(training),
      plan_(std::move(plan)),
      events_(events),
      token_(random_token()),
      address_(new_address()),
      listener_(listen_unix(address_)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  std::vector<ActorOptions> options;
  for (int rank = 0; rank < training_.scaling.num_workers; ++rank) {
    ActorOptions each;
    each.resources = resources_of_worker(training_.scaling);
    each.process_name = process_name(rank);
    each.log_path = str(plan_.run_folder, "/logs/", each.process_name, ".log");
    options.push_back(each);
    ranks_.push_back(rank);
  }
  members_ = actor_group<Member>(options);
  if (!training_.datasets.empty()) {
    ActorOptions reader;
    reader.process_name = process_name(kDataReader);
    reader.log_path = str(plan_.run_folder, "/logs/", reader.process_name, ".log");
    members_.push_back(actor<Member>(reader));
    ranks_.push_back(kDataReader);
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    runs_.push_back(members_[i].call<&Member::run>(address_, token_, plan_.attempt, ranks_[i]));
  }
  server_ = std::thread([this] { serve(); });
  watcher_ = std::thread([this] { watch(); });
}

Group::~Group() {
  stop();
  ::unlink(address_.c_str());
}

void Group::stop() {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
  server_.join();
  watcher_.join();
  connections_.clear();  // a data reader ends when its workers have gone
  auto [done, running] = wait(runs_, static_cast<int>(runs_.size()), std::chrono::seconds(0));
  for (size_t i = 0; i < runs_.size(); ++i) {
    bool has_ended = std::find_if(done.begin(), done.end(), [&](const auto& ref) {
                       return ref.handle() == runs_[i].handle();
                     }) != done.end();
    if (!has_ended) kill(members_[i]);
  }
  wait(runs_, static_cast<int>(runs_.size()), kStopDeadline);
  for (const auto& run : runs_) {
    try {
      get(run, std::chrono::seconds(0));
    } catch (const Error&) {  // it was killed, or has been heard of before
    }
  }
  members_.clear();
}

void Group::acknowledge(int64_t index) {
  std::lock_guard lock(mutex_);
  to_acknowledge_.push_back(index);
  uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

// Hears of processes that end before their time.
void Group::watch() {
  auto pending = runs_;
  while (!pending.empty()) {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    auto [ready, rest] = wait(pending, 1, std::chrono::milliseconds(20));
    for (const auto& ref : ready) {
      auto place = std::find_if(runs_.begin(), runs_.end(),
                                [&](const auto& run) { return run.handle() == ref.handle(); });
      int rank = ranks_[static_cast<size_t>(place - runs_.begin())];
      try {
        get(ref, std::chrono::seconds(0));
      } catch (const Error& error) {
        events_.push(Failed{plan_.attempt, {rank, error.kind(), how_it_ended(error), false}});
      }
    }
    pending = rest;
  }
}

void Group::serve() {
  while (true) {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      for (int64_t index : std::exchange(to_acknowledge_, {})) {
        for (auto& [rank, connection] : joined_) {
          if (rank != kDataReader) send(rank, Acknowledged{index});
        }
      }
    }
    std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    for (auto& each : connections_) polled.push_back({each->channel->fd(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), 1000) < 0 && errno != EINTR) throw_errno("poll");
    uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof(count));
    for (size_t i = 2; i < polled.size(); ++i) {
      if (polled[i].revents != 0) read(*connections_[i - 2]);
    }
    std::erase_if(connections_, [](const auto& each) {
      return !each->channel || (!each->rank && Clock::now() - each->since > kJoinDeadline);
    });
    if (polled[0].revents != 0) {
      UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (socket) {
        connections_.push_back(std::make_unique<Connection>(
            Connection{std::make_unique<Channel>(std::move(socket)), {}, Clock::now()}));
      }
    }
  }
}

// Whoever says something that it should not is not listened to any longer.
void Group::read(Connection& connection) {
  auto drop = [&] {
    if (connection.rank) joined_.erase(*connection.rank);
    connection.channel.reset();
  };
  auto fail = [&](ErrorKind kind, const std::string& why) {
    // Its process may have died, which watch() tells better.
    events_.push(Failed{plan_.attempt, {connection.rank.value_or(kDriver), kind, why, true}});
    drop();
  };
  try {
    Frame frame;
    while (true) {
      IoStatus status = connection.channel->try_receive(&frame);
      if (status == IoStatus::kWouldBlock) return;
      if (status == IoStatus::kClosed) {
        bool concluded = !connection.rank || *connection.rank == kDataReader ||
                         concluded_.contains(*connection.rank);
        if (concluded) return drop();
        return fail(ErrorKind::kWorkerLost, "it ended without a word");
      }
      auto message = decode_message<FromMember>(frame);
      if (auto* join = std::get_if<Join>(&message)) {
        on(connection, *join);
        continue;
      }
      if (!connection.rank) throw Error(ErrorKind::kCorrupt, "it spoke before it joined");
      int rank = *connection.rank;
      if (auto* report = std::get_if<SendReport>(&message)) {
        reported_[rank] = report->index;
        events_.push(Reported{plan_.attempt, rank, report->index, std::move(report->metrics),
                              std::move(report->positions), report->has_checkpoint});
      } else if (auto* files = std::get_if<SendFiles>(&message)) {
        events_.push(Wrote{plan_.attempt, rank, files->index, std::move(files->files)});
      } else if (auto* failure = std::get_if<SendFailure>(&message)) {
        concluded_.insert(rank);
        events_.push(
            Failed{plan_.attempt,
                   {rank, failure->kind, std::move(failure->message), failure->consequence}});
      } else if (std::holds_alternative<SendDone>(message)) {
        concluded_.insert(rank);
        events_.push(Finished{plan_.attempt, rank});
      } else if (auto* progress = std::get_if<SendProgress>(&message)) {
        events_.push(std::move(*progress));
      } else if (auto* request = std::get_if<StoreRequest>(&message)) {
        on(rank, *request);
      }
    }
  } catch (const std::exception& error) {
    if (connection.rank) return fail(ErrorKind::kCorrupt, error.what());
    log_warning(str("dropped a connection to the training group: ", error.what()));
    drop();
  }
}

void Group::on(Connection& connection, Join& message) {
  bool expected = std::find(ranks_.begin(), ranks_.end(), message.rank) != ranks_.end() &&
                  !joined_.contains(message.rank) && message.attempt == plan_.attempt;
  if (message.token != token_ || !expected || connection.rank) {
    throw Error(ErrorKind::kCorrupt, "it has no right to join");
  }
  connection.rank = message.rank;
  joined_[message.rank] = &connection;
  if (joined_.size() < ranks_.size()) return;
  try {
    begin();
  } catch (const Error& error) {
    events_.push(Failed{plan_.attempt, {kDriver, error.kind(), error.what(), false}});
  }
}

void Group::begin() {
  int workers = training_.scaling.num_workers;
  BeginReading reading;
  reading.timeout_ms = training_.run.collective_timeout.count();
  reading.threads = std::max(1, static_cast<int>(cluster_resources().cpus));
  for (const auto& [name, dataset] : training_.datasets) {
    reading.plans[name] = data::WirePlan(*dataset.plan());
  }
  UniqueFd region = create_shm_region(workers);
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
    message.next_report = plan_.next_report;
    message.checkpoint = plan_.checkpoint;
    for (const auto& [name, dataset] : training_.datasets) {
      auto from = plan_.positions.find(name);
      message.datasets[name] = from == plan_.positions.end() ? data::Position() : from->second;
    }
    message.timeout_ms = training_.run.collective_timeout.count();
    message.region = SharedFd(UniqueFd(::dup(region.get())));
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

template <class Message>
void Group::send(int rank, const Message& message) {
  auto found = joined_.find(rank);
  if (found == joined_.end()) return;
  found->second->channel->send([&](OutBuffer& out) { encode_message<ToMember>(out, message); });
}

void Group::on(int rank, StoreRequest& message) {
  bool changes = message.kind == StoreRequest::kSet || message.kind == StoreRequest::kAdd ||
                 message.kind == StoreRequest::kCompareSet;
  if (!answer(rank, message)) waiting_.push_back({rank, message});
  if (!changes) return;
  std::erase_if(waiting_, [&](const Waiting& each) { return answer(each.rank, each.request); });
}

// False if it has to wait for another worker.
bool Group::answer(int rank, const StoreRequest& message) {
  StoreReply reply;
  reply.request = message.request;
  auto all_there = [&] {
    return std::all_of(message.keys.begin(), message.keys.end(),
                       [&](const auto& key) { return store_.contains(key); });
  };
  const std::string key = message.keys.empty() ? "" : message.keys.front();
  switch (message.kind) {
    case StoreRequest::kSet:
      store_[key] = message.value;
      break;
    case StoreRequest::kGet:  // waits for all of the keys, gives the first one's value
      if (!all_there()) return false;
      reply.value = store_[key];
      break;
    case StoreRequest::kAdd: {
      auto& value = store_[key];
      reply.number = (value.empty() ? 0 : std::stoll(value)) + message.amount;
      value = std::to_string(reply.number);
      break;
    }
    case StoreRequest::kCompareSet: {
      auto found = store_.find(key);
      if (found == store_.end()) {
        if (message.expected.empty()) store_[key] = message.value;
        reply.value = message.expected.empty() ? message.value : message.expected;
      } else {
        if (found->second == message.expected) found->second = message.value;
        reply.value = found->second;
      }
      break;
    }
    case StoreRequest::kCheck:
      reply.found = all_there();
      break;
    case StoreRequest::kDelete:
      reply.found = store_.erase(key) > 0;
      break;
    case StoreRequest::kMissing:
      for (int each = 0; each < training_.scaling.num_workers; ++each) {
        auto found = reported_.find(each);
        bool made = found != reported_.end() && found->second >= message.amount;
        if (!made) reply.value += str(reply.value.empty() ? "" : ", ", each);
      }
      break;
    case StoreRequest::kCount:
      reply.number = static_cast<int64_t>(store_.size());
      break;
  }
  send(rank, reply);
  return true;
}

}  // namespace manta::train
