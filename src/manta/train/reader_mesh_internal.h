#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/io/tls_listener_internal.h"
#include "manta/train/messages_internal.h"

namespace manta::train {

/// The connections between the data readers of a group's nodes: one TLS connection for each two
/// readers, with the group's key. Each reader listens on its node's address until all others have
/// come, and connects to the readers of the nodes before its own. It accepts only a peer that has
/// the group's token, is of this attempt, and is of a node that is missing; Listener says what a
/// stranger may do.
class ReaderMesh {
 public:
  /// Listens. Throws Error(kIo) if it cannot.
  ReaderMesh(const ReaderPeers& peers, const std::string& token, int attempt);
  ~ReaderMesh();
  ReaderMesh(const ReaderMesh&) = delete;

  uint16_t port() const { return listener_->address().port; }
  /// The connections, by node; null for its own node. Ends listening. Throws Error(kTimeout) naming
  /// the hosts that did not come, or what connecting throws, naming the host.
  std::vector<std::unique_ptr<Transport>> connect(const std::vector<std::string>& addresses,
                                                  Deadline deadline);

 private:
  void on_first(const std::shared_ptr<AsyncChannel>& channel, Frame& frame);
  std::unique_ptr<Transport> connect_to(size_t node, const std::string& address,
                                        Deadline deadline) const;
  std::string missing() const;
  const std::string& own_host() const {
    return peers_.hosts[static_cast<size_t>(peers_.node_rank)];
  }

  const ReaderPeers peers_;
  const std::string token_;
  const int attempt_;
  const TlsKey key_;
  EventLoop loop_;
  std::vector<std::shared_ptr<AsyncChannel>> came_;  // by node
  std::unique_ptr<TlsListener> listener_;
};

}  // namespace manta::train
