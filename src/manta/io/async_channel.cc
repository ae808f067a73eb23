#include "manta/base/error_internal.h"
#include "manta/io/async_channel_internal.h"
#include "manta/io/unix_transport_internal.h"

namespace manta {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

AsyncChannel::AsyncChannel(EventLoop& loop, std::unique_ptr<Transport> transport, size_t max_body,
                           bool takes_fds)
    : loop_(loop),
      transport_(std::move(transport)),
      peer_(transport_->peer()),
      socket_(loop.context, transport_->fd()),
      decoder_(max_body, takes_fds && transport_->carries_fds()),
      out_(transport_->carries_fds()) {}

AsyncChannel::AsyncChannel(EventLoop& loop, UniqueFd socket, size_t max_body, bool takes_fds)
    : AsyncChannel(loop, std::make_unique<UnixTransport>(std::move(socket)), max_body, takes_fds) {}

AsyncChannel::~AsyncChannel() {
  if (socket_.is_open()) socket_.release();  // the transport closes it
}

void AsyncChannel::start(OnFrame on_frame, OnClose on_close) {
  on_frame_ = std::move(on_frame);
  on_close_ = std::move(on_close);
  if (!std::exchange(started_, true)) wait_readable();
}

OutBuffer& AsyncChannel::out() {
  if (!flush_posted_ && !waiting_writable_ && socket_.is_open()) {
    flush_posted_ = true;
    loop_.post([self = shared_from_this()] {
      self->flush_posted_ = false;
      self->flush();
    });
  }
  return out_;
}

void AsyncChannel::when_sent(std::function<void()> then) {
  when_sent_ = std::move(then);
  out();  // a flush follows
}

void AsyncChannel::close() {
  on_frame_ = nullptr;
  on_close_ = nullptr;
  when_sent_ = nullptr;
  if (!socket_.is_open()) return;
  socket_.release();
  transport_.reset();
}

std::unique_ptr<Transport> AsyncChannel::take_transport() {
  if (!decoder_.empty()) {
    throw Error(ErrorKind::kCorrupt, "the peer goes on before it has got what it asked for");
  }
  MANTA_CHECK(out_.empty() && socket_.is_open(),
              "a channel is taken before it has sent everything");
  auto transport = std::move(transport_);
  on_frame_ = nullptr;
  on_close_ = nullptr;
  when_sent_ = nullptr;
  socket_.release();
  return transport;
}

void AsyncChannel::flush_and_close() {
  if (socket_.is_open()) flush();
  close();
}

void AsyncChannel::wait_readable() {
  waiting_readable_ = true;
  if (transport_->has_more()) {  // poll(2) does not see it
    loop_.post([self = shared_from_this()] {
      if (self->socket_.is_open()) self->on_readable();
    });
    return;
  }
  socket_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](error_code error) {
    std::lock_guard lock(self->loop_.mutex);
    if (!error && self->socket_.is_open()) self->on_readable();
  });
}

void AsyncChannel::wait_writable() {
  if (std::exchange(waiting_writable_, true)) return;
  socket_.async_wait(stream_descriptor::wait_write, [self = shared_from_this()](error_code error) {
    std::lock_guard lock(self->loop_.mutex);
    self->waiting_writable_ = false;
    if (!error) self->flush();
  });
}

void AsyncChannel::resume() {
  if (!std::exchange(paused_, false) || waiting_readable_) return;
  waiting_readable_ = true;
  loop_.post([self = shared_from_this()] {
    if (self->socket_.is_open()) self->on_readable();
  });
}

void AsyncChannel::on_readable() {
  waiting_readable_ = false;
  // A few reads a turn, so that one busy peer does not keep the others waiting.
  if (!read_frames(4)) return;
  decoder_.release();
  if (transport_->has_unsent()) wait_writable();
  if (!paused_) wait_readable();
}

void AsyncChannel::drain() {
  auto self = shared_from_this();
  draining_ = true;
  while (socket_.is_open() && read_frames(1 << 20) && !drained_) {
  }
  draining_ = false;
}

// False once the channel is closed.
bool AsyncChannel::hand_out() {
  Frame frame;
  while (socket_.is_open() && (!paused_ || draining_) && decoder_.next(&frame)) {
    auto handler = on_frame_;  // the handler may replace or drop on_frame_
    handler(frame);
  }
  return socket_.is_open();
}

// False once the channel is closed.
bool AsyncChannel::read_frames(int max_reads) {
  auto self = shared_from_this();  // a handler may drop the last other reference
  try {
    drained_ = false;
    if (!hand_out()) return false;  // frames that a pause has left
    for (int i = 0; i < max_reads && (!paused_ || draining_); ++i) {
      IoStatus status = decoder_.receive(*transport_, Blocking::kNo);
      if (status == IoStatus::kClosed) {
        fail("");
        return false;
      }
      if (status == IoStatus::kWouldBlock) {
        drained_ = true;
        break;
      }
      if (!hand_out()) return false;
    }
  } catch (const std::exception& error) {  // of any kind: this peer's message caused it
    fail(error.what());
    return false;
  }
  return true;
}

void AsyncChannel::flush() {
  if (!socket_.is_open()) return;
  if (out_.empty() && !transport_->has_unsent()) return tell_sent();
  try {
    IoStatus status = out_.flush(*transport_);
    if (status == IoStatus::kDone) tell_sent();
    if (status == IoStatus::kClosed)
      broken_ = true;  // the reading side reports it, after the peer's last frames
    if (status == IoStatus::kWouldBlock) wait_writable();
  } catch (const Error& error) {
    fail(error.what());
  }
}

// Does not call it from here: the thread that flushes may be in the middle of something.
void AsyncChannel::tell_sent() {
  if (!when_sent_) return;
  loop_.post([self = shared_from_this(), then = std::exchange(when_sent_, nullptr)] {
    if (self->socket_.is_open()) then();
  });
}

void AsyncChannel::fail(const std::string& why) {
  auto on_close = std::move(on_close_);
  close();
  if (on_close) on_close(why);
}

}  // namespace manta
