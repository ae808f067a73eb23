#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace manta {

/// The operation in which a training loop waits for other processes.
struct Wait {
  enum Kind : uint8_t { kNone, kCollective, kRows, kReport, kReturned };
  Kind kind = kNone;
  int64_t number = -1;    ///< The number of the collective, the pass over data or the report, from
                          ///< 0.
  const char* what = "";  ///< The collective's or the data set's name; must outlive the watch.
  int64_t step = -1;      ///< kCollective: the step of the data exchanged. kRows: the epoch.
};

/// The thread of a training loop notes here what it waits in, for another thread of the process to
/// read. A note costs a few stores: no lock, no clock, no system call.
///
/// Only waits of the loop's own thread are noted. Once another thread takes part (it begins a
/// collective, or takes batches), it is unknown what the loop waits for, and `read` returns kNone.
class WaitWatch {
 public:
  /// The thread that makes it is the loop's.
  WaitWatch() = default;
  WaitWatch(const WaitWatch&) = delete;

  /// Counts, and returns the number of the operation that begins. Every rank begins the same
  /// operations.
  int64_t begin_collective() { return count(collectives_); }
  int64_t begin_pass() { return count(passes_); }
  int64_t collectives() const { return collectives_.load(std::memory_order_relaxed); }
  int64_t passes() const { return passes_.load(std::memory_order_relaxed); }

  /// The step of the data that is being exchanged, e.g. gradients; -1 between exchanges.
  int64_t step() const { return step_.load(std::memory_order_relaxed); }
  void set_step(int64_t step) { step_.store(step, std::memory_order_relaxed); }

  /// The loop waits in this from now on, until it waits in something else or leaves. A wait that is
  /// in fact over does no harm: the others know by then that the process waited for has come.
  void enter(const Wait& wait);
  void leave() { enter({}); }

  struct Seen {
    Wait wait;
    uint64_t version = 0;  ///< Changes whenever the loop enters or leaves a wait.
  };
  Seen read() const;
  bool others_take_part() const { return others_take_part_.load(std::memory_order_relaxed); }

  /// The wait that an exception ended; nothing once the loop has caught it and waits again. Only
  /// for the loop's thread.
  const Wait& thrown_from() const { return thrown_from_; }

  /// Waits for as long as it lives. Inside another wait it changes nothing.
  class [[nodiscard]] Scope {
   public:
    Scope(WaitWatch* watch, const Wait& wait);  ///< A null watch: nothing happens.
    /// A collective that begins now.
    Scope(WaitWatch* watch, const char* collective);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    void begin(const Wait& wait);

    WaitWatch* watch_;  // null: this scope is inside another one
    int exceptions_ = 0;
  };

 private:
  bool is_loop() {
    if (std::this_thread::get_id() == loop_) return true;
    others_take_part_.store(true, std::memory_order_relaxed);
    return false;
  }
  int64_t count(std::atomic<int64_t>& counter) {
    is_loop();
    return counter.fetch_add(1, std::memory_order_relaxed);
  }

  const std::thread::id loop_ = std::this_thread::get_id();
  std::atomic<bool> others_take_part_{false};
  std::atomic<int64_t> collectives_{0};
  std::atomic<int64_t> passes_{0};
  std::atomic<int64_t> step_{-1};

  std::atomic<uint64_t> version_{0};  // odd while what follows is being written
  std::atomic<Wait::Kind> kind_{Wait::kNone};
  std::atomic<int64_t> number_{-1};
  std::atomic<const char*> what_{""};
  std::atomic<int64_t> wait_step_{-1};

  bool in_scope_ = false;  // of the loop's thread, as the next
  Wait thrown_from_;
};

}  // namespace manta
