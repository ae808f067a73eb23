#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "manta/io/tls_internal.h"

namespace manta {

/// Connects to the driver, one connection after the other, on a separate thread: an agent must
/// answer pings meanwhile.
class NodeConnector {
 public:
  NodeConnector(const TlsKey& key, std::string host, uint16_t port);
  ~NodeConnector() { stop(); }

  /// Called on the connector's thread with the stream, or with null and the reason.
  using Done = std::function<void(std::unique_ptr<Transport>, const std::string& why)>;
  void connect(Done done);
  /// Forgets connections that wait, and joins the thread.
  void stop();

 private:
  void run();

  const TlsKey key_;
  const std::string host_;
  const uint16_t port_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Done> waiting_;
  bool stopping_ = false;
  std::thread thread_;  // started with the first connection
};

}  // namespace manta
