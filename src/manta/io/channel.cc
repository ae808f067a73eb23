#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/io/poll_internal.h"
#include "manta/io/unix_transport_internal.h"

namespace manta {
namespace {

constexpr std::chrono::seconds kSendDeadline{60};

constexpr size_t kMaxSocketName = 80;

// The system takes no more than 107 characters. So a socket is named by a descriptor of its folder,
// whose path may be of any length.
class UnixAddress {
 public:
  UnixAddress(const std::string& path, const std::string& what) {
    size_t slash = path.rfind('/');
    std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    if (name.empty() || name.size() > kMaxSocketName) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("the name of the socket '", path, "' has ", name.size(),
                      " characters; it must have 1 to ", kMaxSocketName));
    }
    std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    folder_ = UniqueFd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder_) throw_errno(what);
    std::string text = str("/proc/self/fd/", folder_.get(), "/", name);
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path, text.c_str(), text.size() + 1);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return sizeof(address_); }

 private:
  UniqueFd folder_;
  sockaddr_un address_{};
};
static_assert(sizeof("/proc/self/fd/2147483647/") + kMaxSocketName <=
              sizeof(sockaddr_un::sun_path));

UniqueFd new_unix_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) throw_errno("socket");
  return socket;
}

}  // namespace

Channel::Channel(std::unique_ptr<Transport> transport, size_t max_body)
    : transport_(std::move(transport)),
      decoder_(max_body, transport_->carries_fds()),
      out_(transport_->carries_fds()) {}

Channel::Channel(UniqueFd socket, size_t max_body)
    : Channel(std::make_unique<UnixTransport>(std::move(socket)), max_body) {}

bool Channel::wait_readable(Deadline deadline) {
  if (transport_->has_more()) return true;
  // The next read sends the bytes that a read has left to send.
  short events = static_cast<short>(transport_->has_unsent() ? POLLIN | POLLOUT : POLLIN);
  return poll_until(fd(), events, deadline);
}

bool Channel::receive(Frame* frame, Deadline deadline) {
  while (!decoder_.next(frame)) {
    if (!deadline.is_never() && !wait_readable(deadline)) {
      throw Error(ErrorKind::kTimeout, "the peer sent nothing before the deadline");
    }
    Blocking blocking = deadline.is_never() ? Blocking::kYes : Blocking::kNo;
    if (decoder_.receive(*transport_, blocking) == IoStatus::kClosed) return false;
  }
  return true;
}

IoStatus Channel::try_receive(Frame* frame) {
  while (!decoder_.next(frame)) {
    IoStatus status = decoder_.receive(*transport_, Blocking::kNo);
    if (status != IoStatus::kDone) return status;
  }
  return IoStatus::kDone;
}

bool Channel::send(const std::function<void(OutBuffer&)>& fill) {
  std::lock_guard lock(send_mutex_);
  fill(out_);
  while (true) {
    switch (out_.flush(*transport_)) {
      case IoStatus::kDone:
        return true;
      case IoStatus::kClosed:
        return false;
      case IoStatus::kWouldBlock:
        if (!poll_until(fd(), POLLOUT, Deadline::after(kSendDeadline))) return false;
    }
  }
}

bool Channel::try_send(const std::function<void(OutBuffer&)>& fill) {
  std::unique_lock lock(send_mutex_, std::try_to_lock);
  if (!lock || out_.flush(*transport_) == IoStatus::kWouldBlock) return false;
  fill(out_);
  out_.flush(*transport_);
  return true;
}

UniqueFd connect_unix(const std::string& path) {
  const std::string what = str("connecting to '", path, "'");
  UnixAddress address(path, what);
  UniqueFd socket = new_unix_socket();
  int result;
  do {
    result = ::connect(socket.get(), address.get(), address.size());
  } while (result != 0 && errno == EINTR);
  if (result != 0) throw_errno(what);
  return socket;
}

UniqueFd listen_unix(const std::string& path) {
  const std::string what = str("listening on '", path, "'");
  UnixAddress address(path, what);
  UniqueFd socket = new_unix_socket();
  if (::fchmod(socket.get(), 0600) != 0 ||
      ::bind(socket.get(), address.get(), address.size()) != 0 ||
      ::listen(socket.get(), 1024) != 0) {
    throw_errno(what);
  }
  return socket;
}

std::pair<UniqueFd, UniqueFd> socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) throw_errno("socketpair");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace manta
