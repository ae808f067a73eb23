#include "manta/base/start_thread_internal.h"
#include "manta/core/node_connector_internal.h"

namespace manta {
namespace {

constexpr std::chrono::seconds kConnectDeadline{5};

}  // namespace

NodeConnector::NodeConnector(const TlsKey& key, std::string host, uint16_t port)
    : key_(key), host_(std::move(host)), port_(port) {}

void NodeConnector::connect(Done done) {
  std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(done));
  if (!thread_.joinable()) {
    thread_ = start_thread("the thread that connects to the driver", [this] { run(); });
  }
  changed_.notify_one();
}

void NodeConnector::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void NodeConnector::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    Done done = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      done(connect_tls(key_, host_, port_, Deadline::after(kConnectDeadline)), "");
    } catch (const std::exception& error) {
      done(nullptr, error.what());
    }
    lock.lock();
  }
}

}  // namespace manta
