#include "manta/io/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "manta/base/error.h"

namespace manta {
namespace {

constexpr std::chrono::seconds kSendDeadline{60};

// False once the deadline has passed.
bool wait_for(int fd, short events, Deadline deadline) {
  while (true) {
    pollfd entry{fd, events, 0};
    int ready = ::poll(&entry, 1, deadline.poll_milliseconds());
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) throw_errno("poll on a channel");
  }
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("the socket path '", path, "' has ", path.size(), " characters, the system allows ",
            sizeof(address.sun_path) - 1, "; choose a shorter temporary folder"));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

UniqueFd new_unix_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) throw_errno("socket");
  return socket;
}

}  // namespace

bool Channel::receive(Frame* frame, Deadline deadline) {
  while (!decoder_.next(frame)) {
    if (!deadline.is_never() && !wait_for(socket_.get(), POLLIN, deadline)) {
      throw Error(ErrorKind::kTimeout, "the peer sent nothing before the deadline");
    }
    if (decoder_.receive(socket_.get()) == IoStatus::kClosed) return false;
  }
  return true;
}

IoStatus Channel::try_receive(Frame* frame) {
  while (!decoder_.next(frame)) {
    IoStatus status = decoder_.receive(socket_.get(), MSG_DONTWAIT);
    if (status != IoStatus::kDone) return status;
  }
  return IoStatus::kDone;
}

bool Channel::send(const std::function<void(OutBuffer&)>& fill) {
  std::lock_guard lock(send_mutex_);
  fill(out_);
  while (true) {
    switch (out_.flush(socket_.get())) {
      case IoStatus::kDone:
        return true;
      case IoStatus::kClosed:
        return false;
      case IoStatus::kWouldBlock:
        if (!wait_for(socket_.get(), POLLOUT, Deadline::after(kSendDeadline))) return false;
    }
  }
}

UniqueFd connect_unix(const std::string& path) {
  auto address = unix_address(path);
  UniqueFd socket = new_unix_socket();
  int result;
  do {
    result = ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  } while (result != 0 && errno == EINTR);
  if (result != 0) throw_errno(str("connecting to '", path, "'"));
  return socket;
}

UniqueFd listen_unix(const std::string& path) {
  auto address = unix_address(path);
  UniqueFd socket = new_unix_socket();
  if (::fchmod(socket.get(), 0600) != 0 ||
      ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(socket.get(), 1024) != 0) {
    throw_errno(str("listening on '", path, "'"));
  }
  return socket;
}

std::pair<UniqueFd, UniqueFd> socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) throw_errno("socketpair");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace manta
