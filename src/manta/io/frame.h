#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "manta/io/receive_buffer.h"
#include "manta/io/unique_fd.h"

namespace manta::internal {

/// The unit that a channel sends: a type, bytes, and open file descriptors. On the wire it is a
/// 12-byte header (magic, length, type, number of descriptors, in the machine's byte order) and the
/// body; the descriptors are sent with it over a Unix socket. Over other transports there are none.
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
enum class Blocking;
class Transport;

/// Cuts a byte stream into frames. Throws Error(kCorrupt) if the bytes are not frames. It holds
/// memory only for an incomplete frame, and until the bodies that it handed out are no longer
/// valid.
class FrameDecoder {
 public:
  /// Without `takes_fds`, a descriptor that arrives is an error and is not kept.
  explicit FrameDecoder(size_t max_body = kMaxFrameBody, bool takes_fds = true)
      : max_body_(max_body), takes_fds_(takes_fds) {}

  /// One `read`. kClosed at the end of the stream; throws Error(kCorrupt) if the stream ends in the
  /// middle of a frame.
  IoStatus receive(Transport& transport, Blocking blocking);
  /// The same for a Unix socket that is not a Transport: one recvmsg(2), which blocks if the socket
  /// does.
  IoStatus receive(int socket, int flags = 0);
  /// Takes the next complete frame, if there is one.
  bool next(Frame* frame);
  /// Whether everything that was received has been taken.
  bool empty() const { return begin_ == end_; }
  /// Releases the bodies that were handed out. An owner of many decoders calls it before it waits
  /// for a peer; a `receive` that finds nothing does the same.
  void release();
  /// Call it once a peer has proved its identity: accepts frames of any allowed size, with
  /// descriptors.
  void trust() {
    max_body_ = kMaxFrameBody;
    takes_fds_ = true;
  }

 private:
  std::span<char> make_room();
  IoStatus received(IoStatus status, size_t bytes);

  size_t max_body_;
  bool takes_fds_;
  ReceiveBuffer buffer_;
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
  OutBuffer() = default;
  /// Without `takes_fds`, `end` refuses descriptors: for a transport that does not carry them.
  explicit OutBuffer(bool takes_fds) : takes_fds_(takes_fds) {}

  /// Starts a frame; the caller appends the body to the returned string and then calls `end`.
  std::string& begin(uint16_t type);
  void end(std::vector<OutgoingFd> fds = {});
  void push(uint16_t type, std::string_view body, std::vector<OutgoingFd> fds = {});

  /// Writes as much as the transport takes without blocking. kDone: its socket has everything.
  IoStatus flush(Transport& transport);
  /// The same for a Unix socket that is not a Transport.
  IoStatus flush(int socket);
  bool empty() const { return sent_ == bytes_.size(); }
  size_t size() const { return bytes_.size() - sent_; }

 private:
  struct Attachment {
    size_t at;  // byte of `bytes_` that carries it
    OutgoingFd fd;
  };
  template <class Write>
  IoStatus write_all(const Write& write);
  void drop_open_frame();
  void forget_sent();

  bool takes_fds_ = true;
  std::string bytes_;
  size_t sent_ = 0;
  bool frame_open_ = false;
  size_t frame_begin_ = 0;
  std::deque<Attachment> attachments_;
};

}  // namespace manta::internal
