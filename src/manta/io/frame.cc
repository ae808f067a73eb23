#include "manta/io/frame.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/io/unix_transport_internal.h"

namespace manta::internal {
namespace {

constexpr uint32_t kMagic = 0x31544e4d;  // "MNT1"
constexpr size_t kReceiveSize = 256u << 10;
constexpr size_t kMinReceiveSize = 4u << 10;
constexpr size_t kMaxIdleCapacity = 64u << 10;  // kept after everything has been sent

struct Header {
  uint32_t magic = kMagic;
  uint32_t length = 0;
  uint16_t type = 0;
  uint16_t fd_count = 0;
};
static_assert(sizeof(Header) == 12);
static_assert(kMaxFrameFds <= sizeof(Header) * kMaxFdsPerMessage);

}  // namespace

std::span<char> FrameDecoder::make_room() {
  if (begin_ == end_) begin_ = end_ = 0;
  // A peer that may send only little gets a small buffer.
  const size_t room = std::clamp(sizeof(Header) + max_body_, kMinReceiveSize, kReceiveSize);
  if (buffer_.size() - end_ < room / 4 || buffer_.size() - begin_ < wanted_) {
    const size_t held = end_ - begin_;
    const size_t size = std::max(held, wanted_) + room;
    if (buffer_.size() < size) {
      auto larger = ReceiveBuffer::take(size);
      if (held > 0) std::memcpy(larger.data(), buffer_.data() + begin_, held);
      buffer_ = std::move(larger);
    } else {
      std::memmove(buffer_.data(), buffer_.data() + begin_, held);
    }
    begin_ = 0;
    end_ = held;
  }
  return {buffer_.data() + end_, buffer_.size() - end_};
}

IoStatus FrameDecoder::received(IoStatus status, size_t bytes) {
  if (!takes_fds_ && !fds_.empty()) {
    fds_.clear();
    throw Error(ErrorKind::kCorrupt, "received a descriptor from a peer that may not send any");
  }
  end_ += bytes;
  if (status == IoStatus::kDone) return status;
  if (status == IoStatus::kClosed && begin_ != end_) {
    throw Error(ErrorKind::kCorrupt, str("the peer closed the channel in the middle of a frame, ",
                                         end_ - begin_, " bytes into it"));
  }
  release();
  return status;
}

IoStatus FrameDecoder::receive(Transport& transport, Blocking blocking) {
  auto [status, bytes] = transport.read(make_room(), fds_, blocking);
  return received(status, bytes);
}

IoStatus FrameDecoder::receive(int socket, int flags) {
  auto blocking = flags & MSG_DONTWAIT ? Blocking::kNo : Blocking::kYes;
  auto [status, bytes] = read_unix(socket, make_room(), fds_, blocking);
  return received(status, bytes);
}

void FrameDecoder::release() {
  if (begin_ != end_ || buffer_.size() == 0) return;
  begin_ = end_ = 0;
  buffer_ = ReceiveBuffer();
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
    wanted_ = whole;  // the next `receive` makes room for it
    return false;
  }
  wanted_ = 0;
  if (fds_.size() < header.fd_count) {
    throw Error(ErrorKind::kCorrupt, str("received a frame that names ", header.fd_count,
                                         " descriptors with ", fds_.size(), " of them"));
  }
  frame->type = header.type;
  frame->body = std::string_view(buffer_.data() + begin_ + sizeof(Header), header.length);
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

// Drops a frame that was begun and not ended: the code that filled it threw.
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
  if (!takes_fds_ && !fds.empty()) {
    drop_open_frame();
    throw Error(ErrorKind::kInvalidArgument,
                str("a frame with ", fds.size(),
                    " descriptors for a peer on another host: only a "
                    "Unix socket carries descriptors; send what they hold, or a key to it"));
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

// Even if a peer reads slowly, the buffer must not keep what the peer has already taken.
void OutBuffer::forget_sent() {
  if (sent_ < kReceiveSize || sent_ < bytes_.size() / 2) return;
  for (auto& attachment : attachments_) attachment.at -= sent_;
  bytes_.erase(0, sent_);
  sent_ = 0;
}

template <class Write>
IoStatus OutBuffer::write_all(const Write& write) {
  drop_open_frame();
  int fds[kMaxFdsPerMessage];
  while (sent_ < bytes_.size()) {
    // One write carries the descriptors of its first byte, and stops before the next byte that has
    // descriptors.
    size_t count = 0;
    while (count < attachments_.size() && attachments_[count].at == sent_) {
      fds[count] = attachments_[count].fd.fd;
      ++count;
    }
    size_t until = count < attachments_.size() ? attachments_[count].at : bytes_.size();
    auto [status, bytes] =
        write(std::string_view(bytes_).substr(sent_, until - sent_), std::span(fds, count));
    sent_ += bytes;
    if (bytes > 0) {
      attachments_.erase(attachments_.begin(),
                         attachments_.begin() + static_cast<std::ptrdiff_t>(count));
    }
    if (status == IoStatus::kWouldBlock) forget_sent();
    if (status != IoStatus::kDone) return status;
  }
  // A sender of much data needs the memory again; one that has gone back to little does not.
  if (bytes_.capacity() > std::max(kMaxIdleCapacity, 4 * bytes_.size())) bytes_ = {};
  bytes_.clear();
  sent_ = 0;
  return IoStatus::kDone;
}

IoStatus OutBuffer::flush(Transport& transport) {
  if (empty() && transport.has_unsent()) return transport.write({}, {}).status;
  return write_all([&](std::string_view bytes, std::span<const int> fds) {
    return transport.write(bytes, fds);
  });
}

IoStatus OutBuffer::flush(int socket) {
  return write_all([&](std::string_view bytes, std::span<const int> fds) {
    return write_unix(socket, bytes, fds);
  });
}

}  // namespace manta::internal
