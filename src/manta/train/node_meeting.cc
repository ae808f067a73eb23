#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

#include "manta/base/error_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/io/collective_region_internal.h"
#include "manta/io/poll_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/node_meeting_internal.h"

namespace manta::train {
namespace {

constexpr std::chrono::seconds kVisitDeadline{10};

std::string path_of_meeting(const std::string& meeting) {
  return temporary_folder() + "/" + meeting;
}

template <class Message>
Message receive_at_meeting(Channel& channel, Deadline deadline) {
  Frame frame;
  if (!channel.receive(&frame, deadline))
    throw Error(ErrorKind::kWorkerLost, "the first worker of this node has gone");
  auto message = decode_message<AtMeeting>(frame);
  if (auto* expected = std::get_if<Message>(&message)) return std::move(*expected);
  throw Error(ErrorKind::kCorrupt, "a process of this node says something else than it should");
}

}  // namespace

NodeMeeting::NodeMeeting(const Place& place, const std::string& token)
    : place_(place),
      token_(token),
      path_(path_of_meeting(place.meeting)),
      listener_(listen_unix(path_)) {
  if (place.shared_memory && place.local_size > 1)
    region_ = SharedFd(create_shm_region(place.local_size));
  for (int i = 0; place.meets_reader && i < place.local_size; ++i) {
    auto [worker, reader] = socket_pair();
    feeds_.emplace_back(std::move(worker));
    feed_ends_.emplace_back(std::move(reader));
  }
}

NodeMeeting::~NodeMeeting() { ::unlink(path_.c_str()); }

Descriptors NodeMeeting::answer(int local_rank) {
  Descriptors given;
  if (local_rank == kDataReader) {
    given.workers = std::exchange(feed_ends_, {});
    return given;
  }
  given.region = region_;
  if (place_.meets_reader)
    given.feed = std::exchange(feeds_.at(static_cast<size_t>(local_rank)), {});
  return given;
}

Descriptors NodeMeeting::serve(Deadline deadline) {
  std::set<int> absent;
  if (place_.meets_reader) absent.insert(kDataReader);
  for (int local_rank = 1; local_rank < place_.local_size; ++local_rank) absent.insert(local_rank);
  while (!absent.empty()) {
    if (!poll_until(listener_.get(), POLLIN, deadline)) {
      throw Error(ErrorKind::kTimeout,
                  str(absent.size(), " of ", place_.local_size, " workers of node ", place_.node,
                      " (or its data reader) did not come to its first one"));
    }
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;
    Channel channel(std::move(socket));
    auto visit = receive_at_meeting<Visit>(channel, Deadline::after(kVisitDeadline));
    if (!same_secret(visit.token, token_) || absent.erase(visit.local_rank) == 0)
      throw Error(ErrorKind::kCorrupt, "a process of this node has no right to join the group");
    channel.send([&](OutBuffer& out) { encode_message<AtMeeting>(out, answer(visit.local_rank)); });
  }
  Descriptors own = answer(0);
  region_ = {};
  return own;
}

Descriptors visit_meeting(const std::string& meeting, const std::string& token, int local_rank,
                          Deadline deadline) {
  Channel channel(connect_unix(path_of_meeting(meeting)));
  channel.send([&](OutBuffer& out) { encode_message<AtMeeting>(out, Visit{token, local_rank}); });
  return receive_at_meeting<Descriptors>(channel, deadline);
}

}  // namespace manta::train
