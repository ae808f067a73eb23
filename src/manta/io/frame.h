#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "manta/io/unique_fd.h"

namespace manta::internal {

/// The unit that a channel sends: a type, bytes, and open file descriptors. On the wire it is a
/// 12-byte header (magic, length, type, number of descriptors, in the machine's byte order) and the
/// body; the descriptors are sent with it over a Unix socket.
struct Frame {
  uint16_t type = 0;
  std::string_view body;  ///< Valid until the decoder is fed again.
  std::vector<UniqueFd> fds;
};

/// The largest body by default: large values travel in shared memory, not in frames.
inline constexpr size_t kMaxFrameBody = 64u << 20;
/// The most descriptors of one frame.
inline constexpr size_t kMaxFrameFds = 2048;

enum class IoStatus { kDone, kWouldBlock, kClosed };

/// Cuts a byte stream into frames. Throws Error(kCorrupt) on anything else.
class FrameDecoder {
 public:
  /// Without `takes_fds`, a descriptor that arrives is an error and is not kept.
  explicit FrameDecoder(size_t max_body = kMaxFrameBody, bool takes_fds = true)
      : max_body_(max_body), takes_fds_(takes_fds) {}

  /// One recvmsg(2) on `socket`; it blocks if the socket does. kClosed at end of file; throws
  /// Error(kCorrupt) if that comes in the middle of a frame.
  IoStatus receive(int socket, int flags = 0);
  /// Takes the next complete frame, if there is one.
  bool next(Frame* frame);
  /// Call it once a peer has proved its identity: accepts frames of any allowed size, with
  /// descriptors.
  void trust() {
    max_body_ = kMaxFrameBody;
    takes_fds_ = true;
  }

 private:
  size_t max_body_;
  bool takes_fds_;
  std::string buffer_;
  size_t begin_ = 0;   // of the bytes not yet handed out
  size_t end_ = 0;     // of the received bytes
  size_t wanted_ = 0;  // size of the incomplete frame, if there is one
  std::deque<UniqueFd> fds_;
};

/// A descriptor to send, and the owner that keeps it open until it is sent.
struct OutgoingFd {
  int fd = -1;
  std::shared_ptr<const void> owner;
};

/// Frames waiting to be written, as one sequence of bytes, so that many small ones cost one system
/// call.
class OutBuffer {
 public:
  /// Starts a frame; the caller appends the body to the returned string and then calls `end`.
  std::string& begin(uint16_t type);
  void end(std::vector<OutgoingFd> fds = {});
  void push(uint16_t type, std::string_view body, std::vector<OutgoingFd> fds = {});

  /// Writes as much as the socket takes without blocking.
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

}  // namespace manta::internal
