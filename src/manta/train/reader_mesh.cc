#include <poll.h>

#include "manta/base/error_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/core/node_memory_internal.h"
#include "manta/io/poll_internal.h"
#include "manta/train/reader_mesh_internal.h"

namespace manta::train {

ReaderMesh::ReaderMesh(const ReaderPeers& peers, const std::string& token, int attempt)
    : peers_(peers),
      token_(token),
      attempt_(attempt),
      key_(token),
      came_(peers.hosts.size()),
      listener_(std::make_unique<TlsListener>(loop_, key_, listen_tcp(peers.address, 0),
                                              [this](const std::shared_ptr<AsyncChannel>& channel,
                                                     Frame& frame) { on_first(channel, frame); })) {
}

ReaderMesh::~ReaderMesh() {
  for (auto& channel : came_) {
    if (channel) channel->close();
  }
}

void ReaderMesh::on_first(const std::shared_ptr<AsyncChannel>& channel, Frame& frame) {
  auto message = decode_message<AtMesh>(frame);
  const auto& hello = std::get<ReaderHello>(message);
  bool expected = hello.attempt == attempt_ && hello.node_rank > peers_.node_rank &&
                  hello.node_rank < static_cast<int32_t>(came_.size()) &&
                  !came_[static_cast<size_t>(hello.node_rank)];
  if (!same_secret(hello.token, token_) || !expected)
    throw Error(ErrorKind::kCorrupt, "it has no right to join");
  // From here on it is silent, until all are connected.
  channel->pause();
  came_[static_cast<size_t>(hello.node_rank)] = channel;
}

std::string ReaderMesh::missing() const {
  std::string names;
  for (size_t node = static_cast<size_t>(peers_.node_rank) + 1; node < came_.size(); ++node) {
    if (!came_[node]) names += str(names.empty() ? "" : ", ", peers_.hosts[node]);
  }
  return names;
}

std::vector<std::unique_ptr<Transport>> ReaderMesh::connect(
    const std::vector<std::string>& addresses, Deadline deadline) {
  std::vector<std::unique_ptr<Transport>> connections(peers_.hosts.size());
  if (addresses.size() != connections.size())
    throw Error(ErrorKind::kCorrupt, "the driver names other readers than it should");
  for (size_t node = 0; node < static_cast<size_t>(peers_.node_rank); ++node)
    connections[node] = connect_to(node, addresses[node], deadline);
  while (!missing().empty() && !deadline.passed()) {
    auto until = std::min(deadline.at(), Clock::now() + std::chrono::milliseconds(100));
    loop_.context.run_one_until(until);
  }
  std::lock_guard lock(loop_.mutex);
  listener_.reset();
  if (!missing().empty()) {
    throw Error(ErrorKind::kTimeout,
                str("the data readers of ", missing(), " did not connect to that of ", own_host()));
  }
  for (size_t node = 0; node < came_.size(); ++node) {
    if (came_[node]) connections[node] = std::exchange(came_[node], nullptr)->take_transport();
  }
  return connections;
}

std::unique_ptr<Transport> ReaderMesh::connect_to(size_t node, const std::string& address,
                                                  Deadline deadline) const {
  try {
    TcpAddress at = parse_address(address);
    auto transport = connect_tls(key_, at.host, at.port, deadline);
    OutBuffer out(false);
    encode_message<AtMesh>(out, ReaderHello{token_, attempt_, peers_.node_rank});
    while (out.flush(*transport) == IoStatus::kWouldBlock) {
      if (!poll_until(transport->fd(), POLLOUT, deadline))
        throw Error(ErrorKind::kTimeout, "it takes nothing");
    }
    return transport;
  } catch (const Error& error) {
    throw Error(error.kind(), str("the data reader of ", own_host(), " cannot connect to that of ",
                                  peers_.hosts[node], " at ", address, ": ", error.what()));
  }
}

}  // namespace manta::train
