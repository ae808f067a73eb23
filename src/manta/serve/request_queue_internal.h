#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"

namespace manta::serve {

using RequestId = uint64_t;

struct QueuePolicy {
  int max_queued = 1000;  ///< Requests that wait, beside those that replicas work on.
  int max_batch = 64;     ///< Requests that a replica gets at a time.
  std::chrono::microseconds max_delay{0};
  int max_retries = 3;
};

/// The requests of one deployment: which are let in, in what order and how many at a time replicas
/// get them, and what becomes of those whose replica is lost. Does no I/O and asks no clock.
class RequestQueue {
 public:
  explicit RequestQueue(QueuePolicy policy) : policy_(policy) {}
  void set_policy(QueuePolicy policy) { policy_ = policy; }

  /// Lets a request in; or says why not, and when another try may succeed.
  struct Refused {
    enum Why { kFull, kTooLate } why;
    std::chrono::seconds retry_after;
  };
  std::optional<Refused> admit(RequestId id, Clock::time_point deadline, Clock::time_point now);

  /// What an idle replica gets: all that wait, up to `max_batch`, oldest first. Empty if none wait,
  /// or if it is better to wait for more until `next_batch_at`. A request whose replica was lost
  /// comes first and alone: if it is the one that kills replicas, it takes no others with it.
  std::vector<RequestId> take(Clock::time_point now);
  /// When `take` will give a batch that it has not given now.
  std::optional<Clock::time_point> next_batch_at() const;

  /// A replica has answered all of a batch, after working on it for so long.
  void answered(const std::vector<RequestId>& batch, std::chrono::nanoseconds took);
  /// A replica was lost with these requests. The result are those that may not be tried again; the
  /// others wait anew.
  std::vector<RequestId> lost(const std::vector<RequestId>& batch);
  /// They never reached the replica: they wait anew at no charge.
  void returned(const std::vector<RequestId>& batch);
  /// Nobody waits for its answer any more. True if no replica works on it, so that it is gone.
  bool abandon(RequestId id);
  /// All requests whose deadline has passed, each told once. Those that a replica works on stay
  /// known until it has answered; the others are gone.
  std::vector<RequestId> expire(Clock::time_point now);
  /// When `expire` will have something to tell.
  std::optional<Clock::time_point> next_deadline() const;
  /// Gives up all that wait; returns them.
  std::vector<RequestId> clear();

  void set_replicas(int serving) { replicas_ = serving; }
  int waiting() const { return waiting_; }
  /// How often a replica has begun it.
  int attempts(RequestId id) const;
  /// How long a request that comes now will wait, as far as the past tells; none while it does not.
  std::optional<std::chrono::nanoseconds> expected_wait() const;

 private:
  struct Entry {
    Clock::time_point arrived, deadline;
    int attempts = 0;
    bool begun = false;      // a replica works on it
    bool forgotten = false;  // expired or abandoned meanwhile
  };
  void erase(RequestId id, const Entry& entry);

  QueuePolicy policy_;
  int replicas_ = 0;
  int waiting_ = 0;
  std::unordered_map<RequestId, Entry> entries_;
  std::deque<RequestId> line_;      // may hold ids that are gone
  std::deque<RequestId> suspects_;  // lost with a replica; likewise
  std::set<std::pair<Clock::time_point, RequestId>> deadlines_;
  double seconds_each_ = 0;  // a replica's time for a request, smoothed
  int samples_ = 0;
};

}  // namespace manta::serve
