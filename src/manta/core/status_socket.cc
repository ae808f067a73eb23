#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>

#include "manta/core/status_socket_internal.h"
#include "manta/io/channel_internal.h"

namespace manta {
namespace {

using StatusProtocol = boost::asio::local::stream_protocol;

constexpr std::chrono::seconds kTellDeadline{5};
constexpr std::chrono::milliseconds kStatusPause{100};
constexpr int kMostTold = 8;

bool is_of_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == ::geteuid();
}

// A process that is being sent the text.
struct Told {
  Told(StatusProtocol::socket connected, std::string said)
      : socket(std::move(connected)), text(std::move(said)) {}
  StatusProtocol::socket socket;
  const std::string text;
  std::unique_ptr<EventLoop::Timer> deadline;
};

}  // namespace

struct StatusSocket::Listening : std::enable_shared_from_this<StatusSocket::Listening> {
  Listening(EventLoop& loop, const std::string& path, std::function<std::string()> tell)
      : loop(loop),
        tell(std::move(tell)),
        acceptor(loop.context, StatusProtocol(), listen_unix(path).release()) {}

  void accept() {
    acceptor.async_accept([self = shared_from_this()](boost::system::error_code error,
                                                      StatusProtocol::socket socket) {
      std::lock_guard lock(self->loop.mutex);
      if (!self->acceptor.is_open()) return;
      if (!error) {
        self->answer(std::move(socket));
        return self->accept();
      }
      self->pause = self->loop.after(kStatusPause, [self] { self->accept(); });
    });
  }

  void answer(StatusProtocol::socket socket) {
    if (told >= kMostTold || !is_of_same_user(socket.native_handle())) return;
    ++told;
    auto one = std::make_shared<Told>(std::move(socket), tell());
    one->deadline = loop.after(kTellDeadline, [weak = std::weak_ptr(one)] {
      boost::system::error_code ignored;
      if (auto slow = weak.lock()) slow->socket.close(ignored);
    });
    boost::asio::async_write(one->socket, boost::asio::buffer(one->text),
                             [self = shared_from_this(), one](boost::system::error_code, size_t) {
                               std::lock_guard lock(self->loop.mutex);
                               one->deadline.reset();
                               --self->told;
                             });
  }

  EventLoop& loop;
  const std::function<std::string()> tell;
  StatusProtocol::acceptor acceptor;
  int told = 0;
  std::unique_ptr<EventLoop::Timer> pause;
};

StatusSocket::StatusSocket(EventLoop& loop, const std::string& path,
                           std::function<std::string()> tell)
    : listening_(std::make_shared<Listening>(loop, path, std::move(tell))) {
  listening_->accept();
}

StatusSocket::~StatusSocket() {
  listening_->pause.reset();
  listening_->acceptor.close();
}

}  // namespace manta
