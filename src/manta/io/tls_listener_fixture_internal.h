#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/io/tls_listener_internal.h"
#include "manta/io/transport_pair_internal.h"

namespace manta {

inline constexpr uint16_t kHello = 1, kEcho = 2;

inline Deadline patiently() { return Deadline::after(std::chrono::seconds(50)); }

/// For tests: a listener that accepts a peer whose first frame is a hello, and echoes its further
/// frames.
class TlsListenerTest : public testing::Test {
 protected:
  void listen(AdmissionLimits limits = {}) {
    std::lock_guard lock(loop_.mutex);
    listener_ = std::make_unique<TlsListener>(
        loop_, TlsKey(kTestToken), listen_tcp("127.0.0.1", 0),
        [this](const auto& channel, Frame& frame) { on_first(channel, frame); },
        TlsListenerOptions{.limits = limits});
    port_ = listener_->address().port;
    if (!thread_.joinable()) thread_ = std::thread([this] { loop_.context.run(); });
  }
  ~TlsListenerTest() override {
    {
      std::lock_guard lock(loop_.mutex);
      listener_.reset();
      for (auto& each : members_) each->close();
    }
    work_.reset();
    if (thread_.joinable()) thread_.join();
  }

  void on_first(const std::shared_ptr<AsyncChannel>& channel, Frame& frame) {
    if (frame.type != kHello) throw Error(ErrorKind::kCorrupt, "it does not say hello");
    hellos_.insert(std::string(frame.body));
    members_.push_back(channel);
    channel->trust();
    channel->start(
        [this, raw = channel.get()](Frame& next) {
          frames_ += 1;
          raw->out().push(kEcho, next.body);
        },
        [this](const std::string& why) { ends_.push_back(why); });
  }
  template <class F>
  auto locked(const F& f) {
    std::lock_guard lock(loop_.mutex);
    return f();
  }
  size_t joined() {
    return locked([&] { return hellos_.size(); });
  }
  // Why the first member's connection ended.
  std::string end_of_member() {
    EXPECT_TRUE(eventually([&] { return locked([&] { return !ends_.empty(); }); }));
    return locked([&] { return ends_.empty() ? "(it is still there)" : ends_.front(); });
  }

  std::unique_ptr<Channel> join(const std::string& name, uint16_t port = 0) {
    auto channel = std::make_unique<Channel>(
        connect_tls(TlsKey(kTestToken), "127.0.0.1", port ? port : port_, patiently()));
    channel->send([&](OutBuffer& out) { out.push(kHello, name); });
    return channel;
  }
  void expect_echo(Channel& channel, const std::string& text) {
    ASSERT_TRUE(channel.send([&](OutBuffer& out) { out.push(3, text); }));
    Frame frame;
    ASSERT_TRUE(channel.receive(&frame, patiently()));
    EXPECT_EQ(frame.type, kEcho);
    EXPECT_EQ(frame.body, text);
  }
  void expect_that_others_join() {
    auto channel = join("another");
    expect_echo(*channel, "hello?");
  }
  UniqueFd stranger(const char* from = "127.0.0.1") {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    EXPECT_EQ(::inet_pton(AF_INET, from, &address.sin_addr), 1);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr), 1);
    address.sin_port = htons(port_);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return socket;
  }

  EventLoop loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.context.get_executor()};
  std::set<std::string> hellos_;
  std::vector<std::string> ends_;
  std::atomic<int> frames_ = 0;
  std::list<std::shared_ptr<AsyncChannel>> members_;
  std::unique_ptr<TlsListener> listener_;
  uint16_t port_ = 0;
  std::thread thread_;
};

inline bool is_closed(int socket) {
  char byte;
  ssize_t got = ::recv(socket, &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

// Reads what the listener may send (an alert) until it closes.
inline bool is_let_go(int socket) {
  while (poll_until(socket, POLLIN, patiently())) {
    char bytes[1000];
    if (::recv(socket, bytes, sizeof(bytes), 0) <= 0) return true;
  }
  return false;
}

}  // namespace manta
