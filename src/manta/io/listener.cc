#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/io/listener_internal.h"

namespace manta {
namespace {

constexpr size_t kMaxFirstFrame = 4096;
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr int kAcceptFailures = 20;        // two seconds of failures
constexpr std::chrono::seconds kQuiet{1};  // between warnings
constexpr int kAcceptsPerTurn = 64;

}  // namespace

using boost::asio::posix::stream_descriptor;

Listener::Listener(EventLoop& loop, std::unique_ptr<Acceptor> acceptor, AdmissionLimits limits,
                   OnFirst on_first)
    : loop_(loop),
      acceptor_(std::move(acceptor)),
      on_first_(std::move(on_first)),
      stay_(limits.stay),
      admission_(limits),
      listening_(loop.context, acceptor_->fd()) {
  int flags = ::fcntl(acceptor_->fd(), F_GETFL);
  if (::fcntl(acceptor_->fd(), F_SETFL, flags | O_NONBLOCK) != 0) throw_errno("fcntl");
  accept_later();
}

Listener::~Listener() {
  *alive_ = false;
  listening_.release();
  for (auto& [id, stranger] : strangers_) {
    if (stranger.watch) stranger.watch->release();
    if (stranger.channel) stranger.channel->close();
  }
}

void Listener::accept_later() {
  if (accepting_ || !admission_.may_accept()) return;
  accepting_ = true;
  listening_.async_wait(stream_descriptor::wait_read,
                        [this, &loop = loop_, alive = alive_](boost::system::error_code error) {
                          std::lock_guard lock(loop.mutex);
                          if (!error && *alive) accept_some();
                        });
}

void Listener::accept_some() {
  accepting_ = false;
  for (int i = 0; i < kAcceptsPerTurn && admission_.may_accept(); ++i) {
    UniqueFd socket(::accept4(acceptor_->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      accept_failures_ = 0;
      take(std::move(socket));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {  // too many open files, most likely
      accept_timer_ = loop_.after(kAcceptPause, [this] { accept_later(); });
      if (++accept_failures_ == kAcceptFailures && when_stuck_) when_stuck_();
      return;
    }
  }
  shed();
  accept_later();
}

void Listener::take(UniqueFd socket) {
  Id id = ++last_;
  Stranger stranger;
  try {
    stranger.source = acceptor_->source(socket.get());
  } catch (const Error&) {  // it has gone already
    return;
  }
  auto verdict = admission_.arrive(id, stranger.source, Clock::now());
  if (verdict == Admission::Verdict::kRefuse) return;
  bool admitted = verdict == Admission::Verdict::kAdmit;
  if (!admitted) stranger.waiting = std::move(socket);
  strangers_.emplace(id, std::move(stranger));
  if (admitted) greet(id, std::move(socket));
}

void Listener::fill_places() {
  while (auto id = admission_.next()) greet(*id, std::move(strangers_.at(*id).waiting));
  accept_later();
}

void Listener::shed() {
  for (Id id : admission_.shed(Clock::now())) strangers_.erase(id);
  shed_timer_.reset();
  auto at = admission_.shed_at();
  if (!at) return;
  shed_timer_ = loop_.after(*at - Clock::now(), [this] {
    shed();
    accept_later();
  });
}

void Listener::greet(Id id, UniqueFd socket) {
  auto& stranger = strangers_.at(id);
  stranger.timer = loop_.after(stay_, [this, id] { end(id); });
  try {
    stranger.handshake = acceptor_->greet(std::move(socket));
    stranger.watch = std::make_unique<stream_descriptor>(loop_.context, stranger.handshake->fd());
    step_soon(id);
  } catch (const std::exception& error) {
    tell_of_refusal(error.what());
    loop_.post([this, id, alive = alive_] {  // not now: the caller iterates over the strangers
      if (*alive) end(id);
    });
  }
}

void Listener::wait_for(Id id) {
  auto& stranger = strangers_.at(id);
  auto events = stranger.handshake->waits_for() == POLLOUT ? stream_descriptor::wait_write
                                                           : stream_descriptor::wait_read;
  stranger.watch->async_wait(
      events, [this, id, &loop = loop_, alive = alive_](boost::system::error_code error) {
        std::lock_guard lock(loop.mutex);
        if (!error && *alive) step_soon(id);
      });
}

void Listener::step_soon(Id id) {
  ready_.push_back(id);
  post_step();
}

// One step in a turn: the next is posted behind the loop's other work.
void Listener::post_step() {
  if (ready_.empty() || std::exchange(step_posted_, true)) return;
  loop_.post([this, alive = alive_] {
    if (!*alive) return;
    step_posted_ = false;
    Id id = ready_.front();
    ready_.pop_front();
    post_step();
    step(id);
  });
}

void Listener::step(Id id) {
  auto found = strangers_.find(id);
  if (found == strangers_.end()) return;
  Stranger& stranger = found->second;
  try {
    if (!stranger.handshake->step()) return wait_for(id);
    stranger.watch->release();
    stranger.watch.reset();
    auto transport = stranger.handshake->finish();
    stranger.handshake.reset();
    read_first_frame(id, std::move(transport));
  } catch (const std::exception& error) {
    tell_of_refusal(error.what());
    end(id);
  }
}

void Listener::read_first_frame(Id id, std::unique_ptr<Transport> transport) {
  auto channel = std::make_shared<AsyncChannel>(loop_, std::move(transport), kMaxFirstFrame,
                                                /*takes_fds=*/false);
  strangers_.at(id).channel = channel;
  std::weak_ptr<AsyncChannel> weak = channel;
  channel->start(
      [this, id, weak](Frame& frame) {
        auto joined = weak.lock();
        strangers_.at(id).channel.reset();  // the taker owns it now
        end(id);
        on_first_(joined, frame);
      },
      [this, id](const std::string& why) {
        if (!why.empty()) tell_of_refusal(why);
        end(id);
      });
}

// Frees its place.
void Listener::end(Id id) {
  auto found = strangers_.find(id);
  if (found == strangers_.end()) return;
  Stranger stranger = std::move(found->second);
  strangers_.erase(found);
  if (stranger.watch) stranger.watch->release();
  if (stranger.channel) stranger.channel->close();
  admission_.leave(stranger.source);
  fill_places();
}

// A flood of connections must not flood the log.
void Listener::tell_of_refusal(const std::string& why) {
  auto now = Clock::now();
  if (now < quiet_until_) {
    ++untold_;
    return;
  }
  std::string others = untold_ > 0 ? str(" (and ", untold_, " others before)") : "";
  log_warning(str("a connection was refused: ", why, others));
  quiet_until_ = now + kQuiet;
  untold_ = 0;
}

}  // namespace manta
