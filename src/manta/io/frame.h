#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "manta/io/unique_fd.h"

namespace manta {

/// What goes over a channel: a type, bytes, and open file descriptors. On the wire a 12-byte header
/// (magic, length, type, number of descriptors, in the machine's byte order) and the body;
/// descriptors ride along on a Unix socket.
struct Frame {
  uint16_t type = 0;
  std::string_view body;  ///< Valid until the decoder is fed again.
  std::vector<UniqueFd> fds;
};

/// Nothing larger is accepted by default: large values travel in shared memory, not in frames.
inline constexpr size_t kMaxFrameBody = 64u << 20;
/// More cannot be attached to one frame.
inline constexpr size_t kMaxFrameFds = 2048;

enum class IoStatus { kDone, kWouldBlock, kClosed };

/// Cuts a byte stream into frames. Throws Error(kCorrupt) on anything that is not one.
class FrameDecoder {
 public:
  /// Without `takes_fds`, a descriptor that comes is an error, not kept.
  explicit FrameDecoder(size_t max_body = kMaxFrameBody, bool takes_fds = true)
      : max_body_(max_body), takes_fds_(takes_fds) {}

  /// One recvmsg(2) on `socket`, blocking or not as the socket is. kClosed at end of file; throws
  /// Error(kCorrupt) when that comes in the middle of a frame.
  IoStatus receive(int socket, int flags = 0);
  /// Takes the next whole frame, if there is one.
  bool next(Frame* frame);
  /// Once a peer has proved who it is: frames of any size that is allowed, with descriptors.
  void trust() {
    max_body_ = kMaxFrameBody;
    takes_fds_ = true;
  }

 private:
  size_t max_body_;
  bool takes_fds_;
  std::string buffer_;
  size_t begin_ = 0;   // of what has not been handed out
  size_t end_ = 0;     // of what has been received
  size_t wanted_ = 0;  // size of the frame that has begun, if it is not there yet
  std::deque<UniqueFd> fds_;
};

/// A descriptor to be sent, and what keeps it open until it is.
struct OutgoingFd {
  int fd = -1;
  std::shared_ptr<const void> owner;
};

/// Frames waiting to be written, in one run of bytes, so that many small ones cost one system call.
class OutBuffer {
 public:
  /// Starts a frame; the caller appends the body to the returned string and then calls `end`.
  std::string& begin(uint16_t type);
  void end(std::vector<OutgoingFd> fds = {});
  void push(uint16_t type, std::string_view body, std::vector<OutgoingFd> fds = {});

  /// Writes what the socket takes without blocking.
  IoStatus flush(int socket);
  bool empty() const { return sent_ == bytes_.size(); }
  size_t size() const { return bytes_.size() - sent_; }

 private:
  struct Attachment {
    size_t at;  // byte of `bytes_` that carries it
    OutgoingFd fd;
  };
  void drop_open_frame();
  void forget_sent();

  std::string bytes_;
  size_t sent_ = 0;
  bool frame_open_ = false;
  size_t frame_begin_ = 0;
  std::deque<Attachment> attachments_;
};

}  // namespace manta
