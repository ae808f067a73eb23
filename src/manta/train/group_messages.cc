// The messages of a group's processes.

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/train/active_runs_internal.h"
#include "manta/train/group_internal.h"
#include "manta/train/staging_internal.h"

namespace manta::train {
namespace {

// A process that leaves this many bytes unread is stopped, or broken.
constexpr size_t kMaxUnread = 2 * kMaxFrameBody;
// How often the workers are told that a checkpoint is being written, by any number of ranks.
constexpr std::chrono::milliseconds kBetweenWrites{100};

}  // namespace

void Group::on_first(const std::shared_ptr<AsyncChannel>& channel, Frame& frame, bool is_local) {
  auto message = decode_message<FromMember>(frame);
  auto* join = std::get_if<Join>(&message);
  if (!join) throw Error(ErrorKind::kCorrupt, "it spoke before it joined");
  auto seat = std::find_if(seats_.begin(), seats_.end(), [&](const Seat& each) {
    return each.rank == join->rank && !each.joined && (!each.node || *each.node == join->node);
  });
  bool expected = seat != seats_.end() && join->attempt == plan_.attempt &&
                  is_local == (join->node == 0) && !begun_;
  if (!same_secret(join->token, entry_.driver.token) || !expected)
    throw Error(ErrorKind::kCorrupt, "it has no right to join");
  seat->joined = *join;
  seat->channel = channel;
  auto number = static_cast<size_t>(seat - seats_.begin());
  channel->trust();
  channel->start([this, number](Frame& each) { on_frame(number, each); },
                 [this, number](const std::string& why) { on_closed(number, why); });
  if (all_joined()) loop_.post([this] { on_all_joined(); });
}

// Posted: a listener cannot end while it hands over a connection.
void Group::on_all_joined() {
  if (begun_ || stopping_) return;
  try {
    bool lacks_readers = !training_.datasets.empty() && seats_.back().rank != kDataReader;
    if (lacks_readers) return start_readers();
    begun_ = true;
    local_listener_.reset();
    tls_listener_.reset();
    begin();
  } catch (const Error& error) {
    // No data reader starts on a node that drains.
    if (is_on_draining_node()) return events_.push(NodeDrains{plan_.attempt});
    events_.push(Failed{plan_.attempt, {kDriver, error.kind(), error.what(), false}, {}});
  }
}

bool Group::is_on_draining_node() const {
  for (const Node& node : nodes()) {
    bool is_used = std::any_of(seats_.begin(), seats_.end(), [&](const Seat& seat) {
      return seat.joined && seat.joined->node == node.id;
    });
    if (is_used && node.state == NodeState::kDraining) return true;
  }
  return false;
}

void Group::on_frame(size_t seat, Frame& frame) {
  auto message = decode_message<FromMember>(frame);
  std::visit(
      [&](auto& each) {
        if constexpr (std::is_same_v<std::decay_t<decltype(each)>, Join>) {
          throw Error(ErrorKind::kCorrupt, "it joined twice");
        } else {
          on(seat, each);
        }
      },
      message);
}

void Group::on_closed(size_t number, const std::string& why) {
  Seat& seat = seats_[number];
  seat.channel.reset();
  if (seat.rank == kDataReader || seat.concluded) return;
  bool is_local = seat.joined->node == 0;
  fail(seat, why.empty() || !is_local ? ErrorKind::kWorkerLost : ErrorKind::kCorrupt,
       why.empty() ? "it ended without a word" : why);
}

// Closes the connection of a process that sends something wrong. If the process has died, watch()
// reports it better.
void Group::fail(Seat& seat, ErrorKind kind, const std::string& why) {
  events_.push(Failed{plan_.attempt, {seat.rank, kind, why, true}, std::nullopt});
  if (seat.channel) seat.channel->close();
  seat.channel.reset();
}

void Group::on(size_t seat, Hosting&) {
  auto part = std::find_if(parts_.begin(), parts_.end(),
                           [&](const NodePart& each) { return each.workers.front() == seat; });
  if (part == parts_.end()) throw Error(ErrorKind::kCorrupt, "it is not the first of its node");
  part->listens = true;
  for (size_t each : std::exchange(part->not_begun, {})) {
    if (seats_[each].rank == kDataReader) {
      send(seats_[each], reading_message(*part));
    } else {
      auto place = std::find(part->workers.begin(), part->workers.end(), each);
      auto local_rank = static_cast<size_t>(place - part->workers.begin());
      send(seats_[each], training_message(*part, local_rank));
    }
  }
  if (!wants_asks_) return;
  for (size_t each : part->workers) send(seats_[each], WantAsks{});
}

void Group::on(size_t seat, SendReport& message) {
  int rank = seats_[seat].rank;
  reported_[rank] = message.index;
  if (rank == 0) pace_.add(Clock::now());
  events_.push(Reported{plan_.attempt, rank, message.index, std::move(message.metrics),
                        std::move(message.positions), message.has_checkpoint, message.fingerprint,
                        message.trained_alone, message.needs_all_ranks});
}

void Group::on(size_t seat, SendFiles& message) {
  events_.push(Wrote{plan_.attempt, seats_[seat].rank, message.index, std::move(message.files)});
}

void Group::on(size_t number, SendChunk& message) {
  int rank = seats_[number].rank;
  disk_.add([this, number, rank, chunk = std::move(message)] {
    try {
      write_chunk(make_staging_folder(plan_.run_folder, plan_.attempt, chunk.index, rank), chunk);
      std::lock_guard lock(loop_.mutex);
      send(seats_[number], ChunkTaken{});
    } catch (const Error& error) {
      events_.push(Failed{plan_.attempt, {kDriver, error.kind(), error.what(), false}, {}});
    }
  });
}

void Group::on(size_t number, WantChunk& message) {
  if (!fetchable_.contains(message.name))
    throw Error(ErrorKind::kCorrupt, "it wants a file that is not the checkpoint's");
  disk_.add([this, number, wanted = std::move(message)] {
    try {
      FileChunk chunk = read_chunk(plan_.checkpoint, wanted);
      std::lock_guard lock(loop_.mutex);
      send(seats_[number], chunk);
    } catch (const Error& error) {
      events_.push(Failed{plan_.attempt, {kDriver, error.kind(), error.what(), false}, {}});
    }
  });
}

void Group::on(size_t, SendWriting&) { pass_on_writing(); }

void Group::pass_on_writing() {
  auto now = Clock::now();
  if (now - told_of_writing_ < kBetweenWrites) return;
  told_of_writing_ = now;
  for (const NodePart& part : parts_) {
    if (!part.listens) continue;  // it has not begun
    for (size_t seat : part.workers) send(seats_[seat], Writing{});
  }
}

void Group::on(size_t seat, SendActivity& message) {
  events_.push(Waits{plan_.attempt, seats_[seat].rank, std::move(message.activity)});
}

void Group::on(size_t number, SendFailure& message) {
  Seat& seat = seats_[number];
  seat.concluded = true;
  Failure failure{seat.rank, message.kind, std::move(message.message), message.consequence};
  failure.fatal =
      training_.raises_user_errors && message.kind == ErrorKind::kUserCode && !message.consequence;
  events_.push(Failed{plan_.attempt, std::move(failure), std::move(message.activity)});
}

void Group::on(size_t number, SendDone& message) {
  Seat& seat = seats_[number];
  seat.concluded = true;
  seat.finished = true;
  events_.push(Finished{plan_.attempt, seat.rank, message.collectives, message.passes, message.asks,
                        message.told});
}

void Group::on(size_t seat, SendAsks& message) {
  events_.push(Asks{plan_.attempt, seats_[seat].rank, message.count});
}

void Group::on(size_t, SendProgress& message) { events_.push(std::move(message)); }

void Group::on(size_t, SendEpoch& message) { events_.push(plan_.attempt, std::move(message)); }

void Group::on(size_t number, StoreRequest& message) {
  Seat& seat = seats_[number];
  if (message.kind != StoreRequest::kMissing) {
    for (const auto& answer : store_.ask(seat.rank, std::move(message)))
      send(seats_[static_cast<size_t>(answer.rank)], answer.reply);
    return;
  }
  StoreReply reply;
  reply.request = message.request;
  for (int each = 0; each < training_.scaling.num_workers; ++each) {
    auto found = reported_.find(each);
    bool made = found != reported_.end() && found->second >= message.amount;
    if (!made) reply.value += str(reply.value.empty() ? "" : ", ", each);
  }
  send(seat, reply);
}

void Group::on(size_t number, SendPort& message) {
  seats_[number].port = std::move(message);
  std::string why;
  MeetReaders meet;
  for (const NodePart& part : parts_) {
    if (!part.reader || !seats_[*part.reader].port) return;
    const Seat& seat = seats_[*part.reader];
    if (!seat.channel) return;  // the process has died, which ends the attempt
    if (why.empty()) why = seat.port->why;
    meet.addresses.push_back(TcpAddress{address_of(part, seat), seat.port->port}.text());
  }
  if (!why.empty()) return read_now(why);
  for (const NodePart& part : parts_) send(seats_[*part.reader], meet);
}

void Group::on(size_t number, SendMesh& message) {
  seats_[number].mesh = std::move(message);
  std::string why;
  for (const NodePart& part : parts_) {
    if (!part.reader || !seats_[*part.reader].mesh) return;
    if (why.empty()) why = seats_[*part.reader].mesh->why;
  }
  read_now(why);
}

// Readers of several runs share the processors; the last one left gets all of them.
void Group::on(size_t number, WantThreads&) {
  auto part = std::find_if(parts_.begin(), parts_.end(),
                           [&](const NodePart& each) { return each.reader == number; });
  if (part == parts_.end()) throw Error(ErrorKind::kCorrupt, "it is not a data reader");
  int runs = std::max(1, ActiveRun::count());
  send(seats_[number], UseThreads{std::max(1, static_cast<int>(part->node.total.cpus) / runs)});
}

void Group::read_now(const std::string& why_alone) {
  if (!why_alone.empty() && training_.scaling.split_reading == SplitReading::kAlways) {
    events_.push(Failed{
        plan_.attempt,
        {kDriver, ErrorKind::kIo,
         str("the hosts cannot share the reading of data, as split_reading asks: ", why_alone),
         false},
        {}});
    return;
  }
  if (!why_alone.empty()) {
    log_warning(str("each host reads all data: ", why_alone,
                    "; open the network between the hosts, or set split_reading to kNever"));
  }
  for (const NodePart& part : parts_) send(seats_[*part.reader], ReadNow{!why_alone.empty()});
}

template <class Message>
void Group::send(Seat& seat, const Message& message) {
  if (!seat.channel) return;
  auto channel = seat.channel;
  encode_message<ToMember>(channel->out_to_flush(), message);
  channel->flush();  // the rest is sent when the socket takes it
  // The process does not read any more. Its earlier messages may still be there to be read.
  if (channel->broken()) return;
  size_t unread = channel->out_to_flush().size();
  if (unread <= kMaxUnread) return;
  fail(seat, ErrorKind::kTimeout, str("it has left ", unread, " bytes from the driver unread"));
}
template void Group::send(Seat& seat, const BeginTraining& message);
template void Group::send(Seat& seat, const BeginReading& message);
template void Group::send(Seat& seat, const Acknowledged& message);
template void Group::send(Seat& seat, const WantAsks& message);
template void Group::send(Seat& seat, const StopFrom& message);

}  // namespace manta::train
