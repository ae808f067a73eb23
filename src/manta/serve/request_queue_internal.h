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
  int max_queued = 1000;  ///< Requests that wait, not counting those that replicas work on.
  int max_batch = 64;     ///< Requests that a replica gets at a time.
  std::chrono::microseconds max_delay{0};
  int max_retries = 3;
};

/// The requests of one deployment. It decides which requests are let in, in what order and how many
/// at a time replicas get them, and what happens to those whose replica is lost. Does no I/O and
/// reads no clock.
class RequestQueue {
 public:
  explicit RequestQueue(QueuePolicy policy) : policy_(policy) {}
  void set_policy(QueuePolicy policy) { policy_ = policy; }

  /// Lets a request in, or returns why not, and when another try may succeed.
  struct Refused {
    enum Why { kFull, kTooLate } why;
    std::chrono::seconds retry_after;
  };
  std::optional<Refused> admit(RequestId id, Clock::time_point deadline, Clock::time_point now);

  /// The batch for an idle replica: all waiting requests, up to `max_batch`, oldest first. Empty if
  /// none wait, or if it is better to wait for more until `next_batch_at`. A request whose replica
  /// was lost comes first and alone: if it kills replicas, no other request is lost with it.
  std::vector<RequestId> take(Clock::time_point now);
  /// When `take` may next give a batch.
  std::optional<Clock::time_point> next_batch_at() const;

  /// Call it when a replica has answered a whole batch, with the time it took.
  void answered(const std::vector<RequestId>& batch, std::chrono::nanoseconds took);
  /// Call it when a replica was lost with these requests. Returns those that may not be tried
  /// again; the others wait anew.
  std::vector<RequestId> lost(const std::vector<RequestId>& batch);
  /// Call it when they never reached the replica: they wait anew, and the attempt does not count.
  void returned(const std::vector<RequestId>& batch);
  /// Call it when the client does not wait any more. True if no replica works on the request, so
  /// that it is gone.
  bool abandon(RequestId id);
  /// All requests whose deadline has passed, each returned once. Those that a replica works on stay
  /// known until it has answered; the others are gone.
  std::vector<RequestId> expire(Clock::time_point now);
  /// When `expire` will next return requests.
  std::optional<Clock::time_point> next_deadline() const;
  /// Gives up all waiting requests, and returns them.
  std::vector<RequestId> clear();

  void set_replicas(int serving) { replicas_ = serving; }
  int waiting() const { return waiting_; }
  /// How often a replica has begun the request.
  int attempts(RequestId id) const;
  /// How long a request that comes now will wait, estimated from the past; none if there is no
  /// estimate.
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
  std::deque<RequestId> suspects_;  // lost with a replica; may hold ids that are gone
  std::set<std::pair<Clock::time_point, RequestId>> deadlines_;
  double seconds_each_ = 0;  // a replica's time for a request, smoothed
  int samples_ = 0;
};

}  // namespace manta::serve
