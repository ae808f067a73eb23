#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/admission_internal.h"
#include "manta/io/async_channel_internal.h"
#include "manta/io/transport_internal.h"

namespace manta {

/// A listening socket of one kind.
class Acceptor {
 public:
  virtual ~Acceptor() = default;
  virtual int fd() const = 0;
  /// The source of a connection, as AdmissionLimits counts them.
  virtual std::string source(int socket) const = 0;
  virtual std::unique_ptr<Handshake> greet(UniqueFd socket) const = 0;
};

/// Accepts connections for as long as it lives. A connection has `AdmissionLimits::stay` (10
/// seconds) for its handshake and one frame of at most 4 KB, without descriptors. `OnFirst` takes
/// the frame and decides whether to keep the connection. Until then the connection is a stranger;
/// the number of strangers served at a time is limited. Each turn of the loop does only one step of
/// one handshake, so that other handlers run between the steps. Everything runs with the loop's
/// mutex held. Once the loop runs, the thread that makes or destroys a listener must hold the
/// mutex, too.
class Listener {
 public:
  /// Gets the first frame. It either keeps the channel, after `trust` and another `start`, or
  /// throws; then the connection is closed.
  using OnFirst = std::function<void(const std::shared_ptr<AsyncChannel>&, Frame&)>;

  Listener(EventLoop& loop, std::unique_ptr<Acceptor> acceptor, AdmissionLimits limits,
           OnFirst on_first);
  ~Listener();
  Listener(const Listener&) = delete;

  /// `told` is called when no connection could be accepted for two seconds although some wait: most
  /// likely, too many files are open. The listener goes on trying.
  void when_stuck(std::function<void()> told) { when_stuck_ = std::move(told); }

 protected:
  int listening_fd() const { return acceptor_->fd(); }

 private:
  using Id = Admission::Id;
  struct Stranger {
    std::string source;
    UniqueFd waiting;                      // for a place
    std::unique_ptr<Handshake> handshake;  // until it is complete
    std::unique_ptr<boost::asio::posix::stream_descriptor> watch;
    std::shared_ptr<AsyncChannel> channel;  // afterwards
    std::unique_ptr<EventLoop::Timer> timer;
  };

  void accept_later();
  void accept_some();
  void take(UniqueFd socket);
  void fill_places();
  void shed();
  void greet(Id id, UniqueFd socket);
  void wait_for(Id id);
  void step_soon(Id id);
  void post_step();
  void step(Id id);
  void read_first_frame(Id id, std::unique_ptr<Transport> transport);
  void end(Id id);
  void tell_of_refusal(const std::string& why);

  EventLoop& loop_;
  const std::unique_ptr<Acceptor> acceptor_;
  const OnFirst on_first_;
  const std::chrono::milliseconds stay_;
  Admission admission_;
  boost::asio::posix::stream_descriptor listening_;  // the acceptor's, watched by the loop
  bool accepting_ = false;
  int accept_failures_ = 0;  // in a row
  std::function<void()> when_stuck_;
  Id last_ = 0;
  std::map<Id, Stranger> strangers_;
  std::deque<Id> ready_;  // for a step
  bool step_posted_ = false;
  std::unique_ptr<EventLoop::Timer> accept_timer_, shed_timer_;
  Clock::time_point quiet_until_{};
  size_t untold_ = 0;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace manta
