#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "manta/base/batch_work_internal.h"
#include "manta/base/error_internal.h"
#include "manta/core/call_function_internal.h"
#include "manta/core/client_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/member_internal.h"
#include "manta/train/node_meeting_internal.h"
#include "manta/train/reader_mesh_internal.h"
#include "manta/train/reader_threads_internal.h"
#include "manta/train/session_internal.h"

namespace manta::train {
namespace {

// How long the other processes may take to come: they start together with this one.
constexpr std::chrono::seconds kBeginDeadline{60};
// How long data readers take at most to be connected with each other, once all listen.
constexpr std::chrono::seconds kMeshDeadline{10};

std::chrono::milliseconds timeout_of(const GroupEntry& entry) {
  return std::max<std::chrono::milliseconds>(kBeginDeadline,
                                             std::chrono::milliseconds(entry.timeout_ms));
}

// Allows a task on this node, which is a child of the same zygote, to take this process's stacks.
// If Yama limits ptrace, only ancestors may otherwise do so; if not, the call fails and is not
// needed.
void allow_stacks() { ::prctl(PR_SET_PTRACER, ::getppid()); }

std::shared_ptr<Channel> join_group(const GroupEntry& entry, int rank) {
  Join join{
      entry.driver.token, entry.attempt, rank, Client::current("a training run")->node(), true,
      ::getpid()};
  if (join.node != 0) {
    allow_stacks();
    join.shares_folder = sees_folder(entry.driver);
  }
  std::shared_ptr<Channel> channel = connect_to_driver(entry.driver, join.node);
  channel->send([&](OutBuffer& out) { encode_message<FromMember>(out, join); });
  return channel;
}

// Nothing if the group is being ended.
template <class Message>
std::optional<Message> receive_begin(Channel& channel, const GroupEntry& entry) {
  Frame frame;
  if (!channel.receive(&frame, Deadline::after(timeout_of(entry)))) return std::nullopt;
  auto message = decode_message<ToMember>(frame);
  if (auto* begin = std::get_if<Message>(&message)) return std::move(*begin);
  throw Error(ErrorKind::kCorrupt, "the driver's first message does not say what to do");
}

// The checkpoint that the workers of this node begin with, if the node does not see the run's
// folder.
std::string fetched_checkpoint(const BeginTraining& begin) {
  return str(temporary_folder(), "/", begin.run_name, ".checkpoint");
}

FileChunk ask_for_chunk(Channel& channel, const WantChunk& wanted, Deadline deadline) {
  channel.send([&](OutBuffer& out) { encode_message<FromMember>(out, wanted); });
  Frame frame;
  if (!channel.receive(&frame, deadline))
    throw Error(ErrorKind::kWorkerLost, "the driver has ended this group, or has ended itself");
  auto message = decode_message<ToMember>(frame);
  if (auto* chunk = std::get_if<FileChunk>(&message)) return std::move(*chunk);
  throw Error(ErrorKind::kCorrupt, "the driver does not send the checkpoint");
}

void fetch_checkpoint(Channel& channel, const BeginTraining& begin, Deadline deadline) {
  std::string folder = fetched_checkpoint(begin);
  std::filesystem::remove_all(folder);  // of an earlier attempt
  make_folders(folder);
  fetch_files(folder, begin.checkpoint_files,
              [&](const WantChunk& wanted) { return ask_for_chunk(channel, wanted, deadline); });
}

// Only on a node other than the driver's: there descriptors do not come with the message.
void meet_others(Channel& channel, const GroupEntry& entry, BeginTraining& begin) {
  Deadline deadline = Deadline::after(timeout_of(entry));
  const Place& place = begin.place;
  Descriptors own;
  if (place.local_rank == 0) {
    if (!begin.checkpoint_files.empty()) fetch_checkpoint(channel, begin, deadline);
    NodeMeeting meeting(place, entry.driver.token);
    channel.send([&](OutBuffer& out) { encode_message<FromMember>(out, Hosting{}); });
    own = meeting.serve(deadline);
  } else {
    own = visit_meeting(place.meeting, entry.driver.token, place.local_rank, deadline);
  }
  begin.feed = own.feed;
  begin.region = own.region;
  if (!begin.checkpoint.empty() && !place.shares_checkpoint)
    begin.checkpoint = fetched_checkpoint(begin);
}

// Connects this node's data reader with those of other nodes. If one of them cannot connect, the
// driver is told, and all of them read by themselves.
std::optional<data::FeedPeers> meet_readers(Channel& channel, const GroupEntry& entry,
                                            const ReaderPeers& peers) {
  Deadline deadline = Deadline::after(timeout_of(entry));
  auto tell = [&](const auto& message) {
    channel.send([&](OutBuffer& out) { encode_message<FromMember>(out, message); });
  };
  data::FeedPeers met;
  std::unique_ptr<ReaderMesh> mesh;
  SendPort port;
  try {
    mesh = std::make_unique<ReaderMesh>(peers, entry.driver.token, entry.attempt);
    port.port = mesh->port();
  } catch (const Error& error) {
    port.why = error.what();
  }
  tell(port);
  Frame frame;
  if (!channel.receive(&frame, deadline)) return std::nullopt;
  auto message = decode_message<ToMember>(frame);
  auto* read = std::get_if<ReadNow>(&message);
  if (auto* meet = std::get_if<MeetReaders>(&message); meet && mesh) {
    SendMesh connected;
    try {
      met.connections = mesh->connect(meet->addresses, Deadline::after(kMeshDeadline));
    } catch (const Error& error) {
      connected.why = error.what();
    }
    tell(connected);
    if (!channel.receive(&frame, deadline)) return std::nullopt;
    message = decode_message<ToMember>(frame);
    read = std::get_if<ReadNow>(&message);
  }
  if (!read) throw Error(ErrorKind::kCorrupt, "the driver does not say how this data reader reads");
  if (read->alone) return data::FeedPeers();
  met.node = peers.node_rank;
  met.hosts = peers.hosts;
  met.node_ranks = peers.node_ranks;
  met.always = peers.always;
  met.tell = [](const std::string& text) { std::cout << text + "\n" << std::flush; };
  return met;
}

void run_reader(const std::shared_ptr<Channel>& channel, const BeginReading& begin,
                std::vector<SharedFd> ends, data::FeedPeers peers,
                const std::map<std::string, data::WirePlan>& wire) {
  std::vector<UniqueFd> workers;
  for (auto& fd : ends) workers.push_back(fd.take());
  data::FeedOptions options;
  options.threads = [threads = std::make_shared<ReaderThreads>(channel)] { return threads->now(); };
  // A little less than the workers' own: workers should hear which rank is missing before they give
  // up.
  options.timeout = std::chrono::milliseconds(begin.timeout_ms * 4 / 5);
  std::map<std::string, std::shared_ptr<const data::Plan>> plans;
  for (const auto& [name, plan] : wire) plans[name] = plan.plan();
  data::serve_feed(plans, std::move(workers), options, std::move(peers));
}

LoopResult run_loop(const BeginTraining& begin) {
  if (begin.prepare_worker) call_function(*begin.prepare_worker, Value());
  return LoopResult(
      call_function(begin.loop, begin.loop_takes_config ? to_value(begin.config) : Value()));
}

// Each step allocates memory that the step before has freed. By default glibc returns large blocks
// to the system, which clears every page again: a third of the time of a step whose tensors have
// some megabytes. If the user sets one of these variables, nothing is changed.
void keep_freed_memory() {
#if defined(__GLIBC__)
  for (const char* name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}) {
    if (std::getenv(name)) return;
  }
  ::mallopt(M_MMAP_THRESHOLD, 256 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

LoopResult run_worker_loop(const std::shared_ptr<Channel>& channel, BeginTraining begin) {
  auto send = [&](const auto& message) {
    channel->send([&](OutBuffer& out) { encode_message<FromMember>(out, message); });
  };
  Session session(channel, std::move(begin));
  try {
    LoopResult result = run_loop(session.begin());
    session.finish();
    std::cout.flush();
    std::fflush(nullptr);  // before the driver may end this process
    auto [asks, told] = session.asks();
    send(SendDone{session.watch().collectives(), session.watch().passes(), asks, told});
    return result;
  } catch (const std::exception& error) {
    if (session.was_ended()) return {};
    auto* ours = dynamic_cast<const Error*>(&error);
    std::string message =
        (ours ? "" : demangle(typeid(error).name()) + ": ") + session.error_text(error);
    bool consequence = session.is_consequence(error);
    // Prints it at once: the driver may end this process as soon as it has heard of another
    // process's failure.
    std::cerr << str(consequence ? "this rank stops: " : "the training loop failed: ", message,
                     "\n");
    std::fflush(nullptr);
    if (!consequence) session.settle();
    send(SendFailure{ours ? ours->kind() : ErrorKind::kUserCode, message, consequence,
                     consequence ? session.thrown_from() : std::nullopt});
  } catch (...) {
    const std::string message = "it threw something that is no std::exception";
    std::cerr << "the training loop failed: " + message + "\n";
    session.settle();
    send(SendFailure{ErrorKind::kUserCode, message, false});
  }
  return {};
}

}  // namespace

LoopResult train_as_member(const GroupEntry& entry, int rank) {
  auto channel = join_group(entry, rank);
  auto begin = receive_begin<BeginTraining>(*channel, entry);
  if (!begin) return {};
  if (!begin->place.meeting.empty()) meet_others(*channel, entry, *begin);
  return run_worker_loop(channel, std::move(*begin));
}

void read_as_member(const GroupEntry& entry, const PlanBundle& plans) {
  auto channel = join_group(entry, kDataReader);
  auto begin = receive_begin<BeginReading>(*channel, entry);
  if (!begin) return;
  auto ends = std::move(begin->workers);
  if (!begin->meeting.empty()) {
    ends = visit_meeting(begin->meeting, entry.driver.token, kDataReader,
                         Deadline::after(timeout_of(entry)))
               .workers;
  }
  data::FeedPeers peers;
  if (!begin->peers.hosts.empty()) {
    auto met = meet_readers(*channel, entry, begin->peers);
    if (!met) return;  // the group is being ended
    peers = std::move(*met);
  }
  run_reader(channel, *begin, std::move(ends), std::move(peers),
             plans.empty() ? begin->plans : plans.plans());
}

LoopResult Member::train(const GroupEntry& entry, int rank) {
  keep_freed_memory();
  return train_as_member(entry, rank);
}

void Member::read(const GroupEntry& entry, const PlanBundle& plans) {
  // With two workers on two cores, steps of 64 rows took an eighth longer without.
  become_batch_work();
  read_as_member(entry, plans);
}

}  // namespace manta::train
