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

/// How the data readers of a group's nodes are connected: each two by one TLS connection, with the
/// group's key. Each listens on its node's address until all others have come; a reader connects to
/// those of the nodes before its own. Only a peer that has the group's token, and is of this
/// attempt and of a node that is missing, is taken; see Listener for what a stranger may do.
class ReaderMesh {
 public:
  /// Listens. Throws Error(kIo) if it cannot.
  ReaderMesh(const ReaderPeers& peers, const std::string& token, int attempt);
  ~ReaderMesh();
  ReaderMesh(const ReaderMesh&) = delete;

  uint16_t port() const { return listener_->address().port; }
  /// The connections, by node; that of its own node is null. Ends listening. Throws Error(kTimeout)
  /// naming the hosts that did not come, or what connecting throws, naming the host.
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
