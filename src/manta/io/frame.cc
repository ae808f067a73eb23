#include "manta/io/frame.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "manta/base/error_internal.h"

namespace manta::internal {
namespace {

constexpr uint32_t kMagic = 0x31544e4d;  // "MNT1"
constexpr size_t kReceiveSize = 256u << 10;
constexpr size_t kMaxFdsPerMessage = 250;  // the kernel's SCM_MAX_FD is 253

struct Header {
  uint32_t magic = kMagic;
  uint32_t length = 0;
  uint16_t type = 0;
  uint16_t fd_count = 0;
};
static_assert(sizeof(Header) == 12);
static_assert(kMaxFrameFds <= sizeof(Header) * kMaxFdsPerMessage);

alignas(cmsghdr) thread_local char control_buffer[CMSG_SPACE(sizeof(int) * 253)];

}  // namespace

IoStatus FrameDecoder::receive(int socket, int flags) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (buffer_.size() - end_ < kReceiveSize / 4 || buffer_.size() - begin_ < wanted_) {
    buffer_.erase(0, begin_);
    end_ -= begin_;
    begin_ = 0;
    size_t room = std::max(end_, wanted_) + kReceiveSize;
    if (buffer_.size() < room) buffer_.resize(room);
  }
  iovec part{buffer_.data() + end_, buffer_.size() - end_};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control_buffer;
  message.msg_controllen = sizeof(control_buffer);
  ssize_t received;
  do {
    received = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  } while (received < 0 && errno == EINTR);
  if (received < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return IoStatus::kWouldBlock;
    if (errno != ECONNRESET) throw_errno("reading from a channel");
    // The peer ended without having read everything; for its reader that is an end like any other.
    // Nothing was received: what the control buffer holds is of an earlier call.
    received = 0;
    message.msg_controllen = 0;
  }
  for (auto* control = CMSG_FIRSTHDR(&message); control; control = CMSG_NXTHDR(&message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
      fds_.emplace_back(fd);
    }
  }
  if (!takes_fds_ && !fds_.empty()) {
    fds_.clear();
    throw Error(ErrorKind::kCorrupt, "received a descriptor from a peer that may not send any");
  }
  if (message.msg_flags & MSG_CTRUNC) {
    throw Error(ErrorKind::kResources,
                "descriptors of large objects were lost on the way: too many open files in this "
                "process; raise its limit (ulimit -n) or hold fewer objects");
  }
  if (received == 0) {
    if (begin_ != end_) {
      throw Error(ErrorKind::kCorrupt, str("the peer closed the channel in the middle of a frame, ",
                                           end_ - begin_, " bytes into it"));
    }
    return IoStatus::kClosed;
  }
  end_ += static_cast<size_t>(received);
  return IoStatus::kDone;
}

bool FrameDecoder::next(Frame* frame) {
  if (end_ - begin_ < sizeof(Header)) return false;
  Header header;
  std::memcpy(&header, buffer_.data() + begin_, sizeof(header));
  if (header.magic != kMagic) {
    throw Error(ErrorKind::kCorrupt, "received bytes that are not a frame (wrong magic number)");
  }
  if (header.length > max_body_) {
    throw Error(ErrorKind::kCorrupt,
                str("received a frame of ", header.length, " bytes, the limit is ", max_body_));
  }
  if (header.fd_count > kMaxFrameFds) {
    throw Error(ErrorKind::kCorrupt, str("received a frame with ", header.fd_count,
                                         " descriptors, the limit is ", kMaxFrameFds));
  }
  size_t whole = sizeof(Header) + header.length;
  if (end_ - begin_ < whole) {
    wanted_ = whole;  // room for it is made by the next `receive`
    return false;
  }
  wanted_ = 0;
  if (fds_.size() < header.fd_count) {
    throw Error(ErrorKind::kCorrupt, str("received a frame that names ", header.fd_count,
                                         " descriptors with ", fds_.size(), " of them"));
  }
  frame->type = header.type;
  frame->body = std::string_view(buffer_).substr(begin_ + sizeof(Header), header.length);
  frame->fds.clear();
  for (uint16_t i = 0; i < header.fd_count; ++i) {
    frame->fds.push_back(std::move(fds_.front()));
    fds_.pop_front();
  }
  begin_ += whole;
  return true;
}

std::string& OutBuffer::begin(uint16_t type) {
  drop_open_frame();
  if (sent_ == bytes_.size()) {
    bytes_.clear();
    sent_ = 0;
  }
  frame_begin_ = bytes_.size();
  frame_open_ = true;
  Header header;
  header.type = type;
  bytes_.append(reinterpret_cast<const char*>(&header), sizeof(header));
  return bytes_;
}

// What was begun and not ended: whoever filled it threw.
void OutBuffer::drop_open_frame() {
  if (frame_open_) bytes_.resize(frame_begin_);
  frame_open_ = false;
}

void OutBuffer::end(std::vector<OutgoingFd> fds) {
  size_t length = bytes_.size() - frame_begin_ - sizeof(Header);
  if (length > kMaxFrameBody || fds.size() > kMaxFrameFds) {
    drop_open_frame();
    throw Error(ErrorKind::kInvalidArgument,
                str("a message of ", length, " bytes with ", fds.size(),
                    " large objects exceeds the limits of ", kMaxFrameBody, " bytes and ",
                    kMaxFrameFds, " objects; pass fewer arguments at once"));
  }
  Header header;
  std::memcpy(&header, bytes_.data() + frame_begin_, sizeof(header));
  header.length = static_cast<uint32_t>(length);
  header.fd_count = static_cast<uint16_t>(fds.size());
  std::memcpy(bytes_.data() + frame_begin_, &header, sizeof(header));
  frame_open_ = false;
  for (size_t i = 0; i < fds.size(); ++i) {
    attachments_.push_back({frame_begin_ + i / kMaxFdsPerMessage, std::move(fds[i])});
  }
}

void OutBuffer::push(uint16_t type, std::string_view body, std::vector<OutgoingFd> fds) {
  begin(type).append(body);
  end(std::move(fds));
}

// A peer that reads slowly must not make the buffer keep what it has already taken.
void OutBuffer::forget_sent() {
  if (sent_ < kReceiveSize || sent_ < bytes_.size() / 2) return;
  for (auto& attachment : attachments_) attachment.at -= sent_;
  bytes_.erase(0, sent_);
  sent_ = 0;
}

IoStatus OutBuffer::flush(int socket) {
  drop_open_frame();
  while (sent_ < bytes_.size()) {
    // One sendmsg carries the descriptors of its first byte, and stops before the next byte that
    // has some.
    size_t count = 0;
    while (count < attachments_.size() && attachments_[count].at == sent_) ++count;
    size_t until = count < attachments_.size() ? attachments_[count].at : bytes_.size();
    iovec part{bytes_.data() + sent_, until - sent_};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (count > 0) {
      message.msg_control = control_buffer;
      message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
      auto* control = CMSG_FIRSTHDR(&message);
      control->cmsg_level = SOL_SOCKET;
      control->cmsg_type = SCM_RIGHTS;
      control->cmsg_len = CMSG_LEN(sizeof(int) * count);
      for (size_t i = 0; i < count; ++i) {
        std::memcpy(CMSG_DATA(control) + i * sizeof(int), &attachments_[i].fd.fd, sizeof(int));
      }
    }
    ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        forget_sent();
        return IoStatus::kWouldBlock;
      }
      if (errno == EPIPE || errno == ECONNRESET) return IoStatus::kClosed;
      throw_errno("writing to a channel");
    }
    sent_ += static_cast<size_t>(sent);
    attachments_.erase(attachments_.begin(),
                       attachments_.begin() + static_cast<std::ptrdiff_t>(count));
  }
  bytes_.clear();
  sent_ = 0;
  return IoStatus::kDone;
}

}  // namespace manta::internal
