#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/io/unix_transport_internal.h"

namespace manta::internal {
namespace {

alignas(cmsghdr) thread_local char control_buffer[CMSG_SPACE(sizeof(int) * 253)];

ssize_t send_with_fds(int socket, std::string_view bytes, std::span<const int> fds, int flags) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control_buffer;
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  auto* control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(control), fds.data(), fds.size_bytes());
  return ::sendmsg(socket, &message, flags);
}

}  // namespace

Transport::Moved read_unix(int socket, std::span<char> into, std::deque<UniqueFd>& fds,
                           Blocking blocking) {
  iovec part{into.data(), into.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control_buffer;
  message.msg_controllen = sizeof(control_buffer);
  const int flags = MSG_CMSG_CLOEXEC | (blocking == Blocking::kYes ? 0 : MSG_DONTWAIT);
  ssize_t received;
  do {
    received = ::recvmsg(socket, &message, flags);
  } while (received < 0 && errno == EINTR);
  if (received < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {IoStatus::kWouldBlock};
    if (errno != ECONNRESET) throw_errno("reading from a channel");
    // The peer ended without having read everything; for the reader of this end, that is an end
    // like any other. Nothing was received: the control buffer still holds data of an earlier call.
    return {IoStatus::kClosed};
  }
  for (auto* control = CMSG_FIRSTHDR(&message); control; control = CMSG_NXTHDR(&message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  if (message.msg_flags & MSG_CTRUNC) {
    fds.clear();
    throw Error(ErrorKind::kResources,
                "descriptors of large objects were lost on the way: too many open files in this "
                "process; raise its limit (ulimit -n) or hold fewer objects");
  }
  if (received == 0) return {IoStatus::kClosed};
  return {IoStatus::kDone, static_cast<size_t>(received)};
}

Transport::Moved write_unix(int socket, std::string_view bytes, std::span<const int> fds) {
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  ssize_t sent;
  do {
    // Without descriptors, as almost always, the system has a tenth less to do.
    sent = fds.empty() ? ::send(socket, bytes.data(), bytes.size(), kFlags)
                       : send_with_fds(socket, bytes, fds, kFlags);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {IoStatus::kDone, static_cast<size_t>(sent)};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {IoStatus::kWouldBlock};
  if (errno == EPIPE || errno == ECONNRESET) return {IoStatus::kClosed};
  throw_errno("writing to a channel");
}

}  // namespace manta::internal
