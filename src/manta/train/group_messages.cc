// What the processes of a group say, and the connections over which they do.

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log.h"
#include "manta/base/random_token_internal.h"
#include "manta/train/group_internal.h"

namespace manta::train {
namespace {

// For a connection that has not joined.
constexpr std::chrono::seconds kJoinDeadline{10};
constexpr size_t kMaxJoin = 4096;
constexpr size_t kMaxUnjoined = 64;
// A process that leaves so many bytes unread is stopped, or broken.
constexpr size_t kMaxUnread = 2 * kMaxFrameBody;
// Too many open files, most likely: a tenth of a second later some may have been closed.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr int kMaxAcceptFailures = 20;

}  // namespace

void Group::serve() {
  while (!is_stopping()) {
    std::vector<Acknowledged> acknowledged;
    {
      std::lock_guard lock(mutex_);
      acknowledged.swap(to_acknowledge_);
    }
    for (const Acknowledged& message : acknowledged) {
      for (int rank : ranks_) {
        if (rank != kDataReader) send(rank, message);
      }
    }
    auto unjoined = std::count_if(connections_.begin(), connections_.end(),
                                  [](const auto& each) { return !each->rank; });
    bool accepts =
        listener_ && static_cast<size_t>(unjoined) < kMaxUnjoined && Clock::now() >= accept_again_;
    std::vector<pollfd> polled = {{accepts ? listener_.get() : -1, POLLIN, 0},
                                  {wake_.get(), POLLIN, 0}};
    for (auto& each : connections_) {
      auto events = static_cast<short>(each->out.empty() ? POLLIN : POLLIN | POLLOUT);
      polled.push_back({each->socket.get(), events, 0});
    }
    int patience = accept_failures_ > 0 ? static_cast<int>(kAcceptPause.count()) : 1000;
    if (::poll(polled.data(), polled.size(), patience) < 0 && errno != EINTR) throw_errno("poll");
    uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof(count));
    for (size_t i = 2; i < polled.size(); ++i) {
      Connection& connection = *connections_[i - 2];
      if (polled[i].revents & POLLOUT) flush(connection);
      if (connection.socket && (polled[i].revents & ~POLLOUT) != 0) read(connection);
    }
    for (auto& each : connections_) {
      if (!each->rank && Clock::now() - each->since > kJoinDeadline) drop(*each);
    }
    std::erase_if(connections_, [](const auto& each) { return !each->socket; });
    if (listener_ && polled[0].revents != 0) accept();
  }
}

void Group::accept() {
  UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) {
    accept_failures_ = 0;
    connections_.push_back(std::make_unique<Connection>(Connection{
        std::move(socket), FrameDecoder(kMaxJoin, /*takes_fds=*/false), {}, {}, Clock::now()}));
    return;
  }
  if (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED) return;
  accept_again_ = Clock::now() + kAcceptPause;
  if (++accept_failures_ < kMaxAcceptFailures) return;
  throw_errno(
      "the workers of a training group cannot connect to the driver (is the limit of open "
      "files, ulimit -n, too low?)");
}

void Group::drop(Connection& connection) {
  if (connection.rank) joined_.erase(*connection.rank);
  connection.socket.reset();
}

void Group::fail(Connection& connection, ErrorKind kind, const std::string& why) {
  // Its process may have died, which watch() tells better.
  events_.push(
      Failed{plan_.attempt, {connection.rank.value_or(kDriver), kind, why, true}, std::nullopt});
  drop(connection);
}

// Whoever says something that it should not is not listened to any longer.
void Group::read(Connection& connection) {
  try {
    while (connection.socket && read_one(connection)) {
    }
  } catch (const std::exception& error) {
    if (connection.rank) return fail(connection, ErrorKind::kCorrupt, error.what());
    log_warning(str("dropped a connection to the training group: ", error.what()));
    drop(connection);
  }
}

// False when there is nothing more to read.
bool Group::read_one(Connection& connection) {
  Frame frame;
  while (!connection.decoder.next(&frame)) {
    IoStatus status = connection.decoder.receive(connection.socket.get(), MSG_DONTWAIT);
    if (status == IoStatus::kDone) continue;
    if (status == IoStatus::kWouldBlock) return false;
    bool concluded = !connection.rank || *connection.rank == kDataReader ||
                     concluded_.contains(*connection.rank);
    if (concluded) {
      drop(connection);
    } else {
      fail(connection, ErrorKind::kWorkerLost, "it ended without a word");
    }
    return false;
  }
  auto message = decode_message<FromMember>(frame);
  if (auto* join = std::get_if<Join>(&message)) {
    on(connection, *join);
    return true;
  }
  if (!connection.rank) throw Error(ErrorKind::kCorrupt, "it spoke before it joined");
  std::visit(
      [&](auto& each) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(each)>, Join>)
          on(*connection.rank, each);
      },
      message);
  return true;
}

void Group::on(Connection& connection, Join& message) {
  bool expected = std::find(ranks_.begin(), ranks_.end(), message.rank) != ranks_.end() &&
                  !joined_.contains(message.rank) && message.attempt == plan_.attempt;
  if (!same_secret(message.token, token_) || !expected || connection.rank) {
    throw Error(ErrorKind::kCorrupt, "it has no right to join");
  }
  connection.rank = message.rank;
  connection.decoder.trust();
  joined_[message.rank] = &connection;
  if (joined_.size() < ranks_.size()) return;
  listener_.reset();
  ::unlink(address_.c_str());
  try {
    begin();
  } catch (const Error& error) {
    events_.push(Failed{plan_.attempt, {kDriver, error.kind(), error.what(), false}, {}});
  }
}

void Group::on(int rank, SendReport& message) {
  reported_[rank] = message.index;
  events_.push(Reported{plan_.attempt, rank, message.index, std::move(message.metrics),
                        std::move(message.positions), message.has_checkpoint, message.fingerprint});
}

void Group::on(int rank, SendFiles& message) {
  events_.push(Wrote{plan_.attempt, rank, message.index, std::move(message.files)});
}

void Group::on(int rank, SendActivity& message) {
  events_.push(Waits{plan_.attempt, rank, std::move(message.activity)});
}

void Group::on(int rank, SendFailure& message) {
  concluded_.insert(rank);
  events_.push(Failed{plan_.attempt,
                      {rank, message.kind, std::move(message.message), message.consequence},
                      std::move(message.activity)});
}

void Group::on(int rank, SendDone& message) {
  concluded_.insert(rank);
  events_.push(Finished{plan_.attempt, rank, message.collectives, message.passes});
}

void Group::on(int, SendProgress& message) { events_.push(std::move(message)); }

void Group::on(int, SendEpoch& message) { events_.push(plan_.attempt, std::move(message)); }

void Group::on(int rank, StoreRequest& message) {
  if (message.kind != StoreRequest::kMissing) {
    for (const auto& answer : store_.ask(rank, std::move(message))) send(answer.rank, answer.reply);
    return;
  }
  StoreReply reply;
  reply.request = message.request;
  for (int each = 0; each < training_.scaling.num_workers; ++each) {
    auto found = reported_.find(each);
    bool made = found != reported_.end() && found->second >= message.amount;
    if (!made) reply.value += str(reply.value.empty() ? "" : ", ", each);
  }
  send(rank, reply);
}

template <class Message>
void Group::send(int rank, const Message& message) {
  auto found = joined_.find(rank);
  if (found == joined_.end()) return;
  encode_message<ToMember>(found->second->out, message);
  flush(*found->second);
}
template void Group::send(int rank, const BeginTraining& message);
template void Group::send(int rank, const BeginReading& message);

// What the socket does not take now is sent when it does.
void Group::flush(Connection& connection) {
  IoStatus status = connection.out.flush(connection.socket.get());
  // Nobody reads it any more. What the process had said before may still be there to be read.
  if (status == IoStatus::kClosed) connection.out = {};
  if (status != IoStatus::kWouldBlock) return;
  if (connection.out.size() <= kMaxUnread) return;
  fail(connection, ErrorKind::kTimeout,
       str("it has left ", connection.out.size(), " bytes from the driver unread"));
}

}  // namespace manta::train
