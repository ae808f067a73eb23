#include <unistd.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log.h"
#include "manta/io/channel_internal.h"
#include "manta/io/unix_listener_internal.h"

namespace manta {
namespace {

constexpr size_t kMaxFirstFrame = 4096;
constexpr size_t kMaxStrangers = 64;
constexpr std::chrono::milliseconds kFirstFrameDeadline{10'000};
constexpr std::chrono::milliseconds kPause{100};

}  // namespace

UnixListener::UnixListener(EventLoop& loop, const std::string& path, OnFirst on_first)
    : loop_(loop), path_(path), on_first_(std::move(on_first)), acceptor_(loop.context) {
  acceptor_.assign(boost::asio::local::stream_protocol(), listen_unix(path).release());
  accept();
}

UnixListener::~UnixListener() {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  ::unlink(path_.c_str());
}

void UnixListener::accept() {
  std::erase_if(strangers_, [](const auto& each) {
    auto channel = each.lock();
    return !channel || channel->broken();
  });
  auto again = [this] {
    if (acceptor_.is_open()) accept();
  };
  if (strangers_.size() >= kMaxStrangers) {
    accept_timer_ = loop_.after(kPause, again);
    return;
  }
  acceptor_.async_accept([this, again](boost::system::error_code error,
                                       boost::asio::local::stream_protocol::socket socket) {
    std::lock_guard lock(loop_.mutex);
    if (error == boost::asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (error) {  // too many open files, most likely
      accept_timer_ = loop_.after(kPause, again);
      return;
    }
    on_connection(UniqueFd(socket.release()));
    accept();
  });
}

void UnixListener::on_connection(UniqueFd socket) {
  auto channel = std::make_shared<AsyncChannel>(loop_, std::move(socket), kMaxFirstFrame,
                                                /*takes_fds=*/false);
  std::weak_ptr<AsyncChannel> weak = channel;
  strangers_.push_back(weak);
  std::shared_ptr<EventLoop::Timer> timer = loop_.after(kFirstFrameDeadline, [weak] {
    if (auto late = weak.lock()) late->close();
  });
  channel->start(
      [this, weak, timer](Frame& frame) {
        auto joined = weak.lock();
        std::erase_if(strangers_, [&](const auto& each) { return each.lock() == joined; });
        on_first_(joined, frame);
      },
      [timer](const std::string& why) {
        if (!why.empty()) log_warning("a connection was refused: " + why);
      });
}

}  // namespace manta
