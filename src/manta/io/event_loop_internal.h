#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

namespace manta {

/// An event loop with a lock: every handler runs with `mutex` held, and a thread that holds `mutex`
/// may do what a handler does. So a call to an object of the loop need not wait until the loop's
/// thread wakes up.
class EventLoop {
 public:
  /// Runs its function once, after a time, unless the timer is destroyed before.
  class Timer {
   public:
    Timer(EventLoop& loop, std::chrono::nanoseconds delay, std::function<void()> function)
        : timer_(loop.context, delay), alive_(std::make_shared<bool>(true)) {
      timer_.async_wait([&loop, alive = alive_, function = std::move(function)](auto error) {
        std::lock_guard lock(loop.mutex);
        if (!error && *alive) function();
      });
    }
    ~Timer() { *alive_ = false; }
    Timer(const Timer&) = delete;

   private:
    boost::asio::steady_timer timer_;
    std::shared_ptr<bool> alive_;
  };

  std::unique_ptr<Timer> after(std::chrono::nanoseconds delay, std::function<void()> function) {
    return std::make_unique<Timer>(*this, delay, std::move(function));
  }

  /// Runs the function soon, on the loop's thread.
  template <class F>
  void post(F function) {
    boost::asio::post(context, [this, function = std::move(function)]() mutable {
      std::lock_guard lock(mutex);
      function();
    });
  }

  boost::asio::io_context context{1};
  std::mutex mutex;
};

}  // namespace manta
