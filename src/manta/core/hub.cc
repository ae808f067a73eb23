#include <signal.h>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/hub_internal.h"
#include "manta/io/channel_internal.h"

namespace manta {
namespace {

constexpr std::chrono::microseconds kLongDispatch{500};
constexpr size_t kFewToLookAt = 100;

}  // namespace

Hub::Hub(HubOptions options)
    : options_(std::move(options)),
      objects_({.answer =
                    [this](uint32_t peer, ObjectReady message) {
                      auto found = peers_.find(peer);
                      if (found != peers_.end()) tell(*found->second, std::move(message));
                    },
                .dependency_ready = [this](ObjectId task) { dependency_ready_.push_back(task); },
                .freed =
                    [this](ObjectId id) {
                      if (!actors_.contains(id)) return;
                      unreferenced_.push_back(
                          id);  // later: whoever let go may still be at work on it
                      request_dispatch();
                    },
                .unobserved =
                    [this](ObjectId id, const ErrorInfo& error) {
                      if (stopping_ || actors_.contains(id)) return;  // an actor's calls tell of it
                      log_warning("nobody asked for the result of something that failed: " +
                                  error.message);
                    }}) {
  auto driver = std::make_unique<Peer>();
  driver->name = "driver";
  peers_[0] = std::move(driver);
  acceptor_.assign(boost::asio::local::stream_protocol(),
                   listen_unix(options_.address.socket_path).release());
  logs_ = std::make_unique<WorkerLogs>(loop_, options_.log_to_driver, options_.fold_repeated_lines);
  engine_ = options_.make_engine(loop_, *this);
  transfers_ = engine_->transfers();
  supply_ = engine_->node_supply();
  plan_nodes_later();
  accept();
  status_socket_ = std::make_unique<StatusSocket>(
      loop_, options_.session_folder + "/" + kStatusSocket, [this] { return status(); });
  thread_ = start_thread("the thread of Manta's hub", [this] { run(); });
}

Hub::~Hub() { stop(); }

void Hub::run() {
  // Signals are for the program's own threads.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "manta:hub");
  try {
    turn_.run();
  } catch (const std::exception& error) {
    fail(error);
  }
}

// No memory, most likely. Nothing can be done any more, and whoever waits is told.
void Hub::fail(const std::exception& error) {
  std::lock_guard lock(loop_.mutex);
  stopping_ = true;
  failure_ = str("Manta's hub failed: ", error.what(), "; ", describe_limits());
  if (driver_client_) driver_client_->on_closed(failure_);
  loop_.context.stop();
}

bool Hub::begin_turn() {
  if (!is_little_at_work()) return false;
  turn_.take();
  return true;
}

bool Hub::take_turn() {
  if (!is_little_at_work()) return false;
  help();
  return true;
}

bool Hub::is_little_at_work() {
  std::lock_guard lock(loop_.mutex);
  return tasks_.size() <= 1;
}

void Hub::help() {
  try {
    turn_.help();
  } catch (const std::exception& error) {
    fail(error);
  }
}

void Hub::set_client(std::shared_ptr<Client> client) {
  std::lock_guard lock(loop_.mutex);
  driver_client_ = std::move(client);
  if (!failure_.empty()) driver_client_->on_closed(failure_);
}

void Hub::stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(loop_.mutex);
    handle_put_off();  // calls of actors that were made before
    stopping_ = true;
    look_after_timer_.reset();
    dispatch_timer_.reset();
    plan_timer_.reset();
    bool actors = false;
    for (auto& [index, peer] : peers_) {
      if (!peer->channel) continue;
      // An actor may finish what it does and run its destructor; a task's result has nobody left to
      // get it.
      if (peer->actor != 0 || peer->assigned.empty()) tell(*peer, Exit{});
      actors = actors || peer->actor != 0;
    }
    // Otherwise on_exited ends the loop with the last actor.
    auto grace = actors ? options_.actor_grace : std::chrono::milliseconds(0);
    stop_timer_ = loop_.after(grace, [this] { loop_.context.stop(); });
  }
  thread_.join();
  turn_.wait_for_helpers();
  acceptor_.close();
  status_socket_.reset();
  for (auto& [index, peer] : peers_) {
    if (peer->channel) peer->channel->flush_and_close();
  }
  engine_->shutdown();
  for (auto& [index, peer] : peers_) {
    if (peer->log) logs_->finish(std::move(peer->log));
  }
  logs_->stop();
  // A reference that outlives the run must not keep its objects.
  peers_.clear();
  tasks_.clear();
  actors_.clear();
  objects_.clear();
  if (driver_client_) driver_client_->on_closed("Manta was shut down");
  driver_client_.reset();
}

void Hub::request_dispatch() {
  if (dispatch_posted_) return;
  dispatch_posted_ = true;
  auto act = [this] { on_dispatch_due(); };
  auto pause = dispatch_pause();
  if (pause > Clock::duration::zero()) {
    dispatch_timer_ = loop_.after(pause, act);
    return;
  }
  loop_.post(act);
  std::lock_guard lock(put_off_mutex_);
  takes_put_off_ = true;
}

void Hub::on_dispatch_due() {
  dispatch_posted_ = false;
  handle_put_off();
  dispatch();
  {
    std::lock_guard lock(put_off_mutex_);
    takes_put_off_ = dispatch_posted_;
    if (put_off_.empty()) return;
  }
  request_dispatch();
}

// With thousands of workers on their way a dispatch takes milliseconds. Then there is a pause as
// long as that after it, and what comes meanwhile is dispatched together.
Clock::duration Hub::dispatch_pause() const {
  if (dispatch_took_ < kLongDispatch) return {};
  return dispatch_ended_ + dispatch_took_ - Clock::now();
}

void Hub::dispatch() {
  if (stopping_) return;
  // Where there is little to look at, it need not know how long that takes.
  bool may_take_long = peers_.size() + nodes_.size() + ready_.num_shapes() > kFewToLookAt;
  auto begin = may_take_long ? Clock::now() : Clock::time_point{};
  // A task whose dependency failed fails too, and may have dependents of its own: a list, not
  // recursion.
  while (!dependency_ready_.empty() || !unreferenced_.empty()) {
    if (!dependency_ready_.empty()) {
      auto task = tasks_.find(dependency_ready_.front());
      dependency_ready_.pop_front();
      if (task != tasks_.end()) dependency_ready(*task->second);
    } else {
      ObjectId actor = unreferenced_.front();
      unreferenced_.pop_front();
      on_actor_unreferenced(actor);
    }
  }
  dispatch_tasks();
  arm_look_after();
  dispatch_ended_ = may_take_long ? Clock::now() : begin;
  dispatch_took_ = dispatch_ended_ - begin;
}

}  // namespace manta
