#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"

namespace manta {

/// How many strangers a listener deals with, and how long: connections whose first frame has not
/// been taken.
struct AdmissionLimits {
  size_t max_strangers = 64;                  ///< Of all sources together.
  size_t max_per_source = 16;                 ///< Of one source (the address of a host).
  size_t max_waiting = 256;                   ///< Accepted, and waiting for one of those places.
  std::chrono::milliseconds stay{10'000};     ///< Of one stranger, from its place to its frame.
  std::chrono::milliseconds patience{2'000};  ///< Of the queue, when it is full.
  std::chrono::milliseconds penalty{10'000};  ///< For a source that has kept it full so long.
};

/// Decides which connections a listener deals with, without I/O.
///
/// Peers that are expected may come in hundreds at once, also from one address: each needs a place
/// for a few milliseconds, so they wait for one, in order. A source that holds its places without
/// getting anywhere keeps nobody else out: it has a quarter of the places, and once the queue has
/// been full for `patience`, the source with most of it loses its part, and may not wait for
/// `penalty`: what it opens beyond its places is closed at once. (An expected peer behind the same
/// address then has to connect again.)
class Admission {
 public:
  using Id = uint64_t;
  enum class Verdict { kAdmit, kWait, kRefuse };

  explicit Admission(AdmissionLimits limits) : limits_(limits) {}

  /// Whether there is room for another connection, wherever it comes from. Otherwise do not accept:
  /// let it wait in the kernel.
  bool may_accept() const {
    return limits_.max_waiting > 0 ? waiting_.size() < limits_.max_waiting
                                   : strangers_ < limits_.max_strangers;
  }
  Verdict arrive(Id id, const std::string& source, Clock::time_point now);
  /// An admitted connection is a stranger no longer, or is closed.
  void leave(const std::string& source);
  /// A waiting connection that is admitted now, if there is a place for one.
  std::optional<Id> next();
  /// Those that lose their place in a queue that is full.
  std::vector<Id> shed(Clock::time_point now);
  /// When `shed` should be called next, while the queue is full.
  std::optional<Clock::time_point> shed_at() const;

 private:
  struct Waiting {
    Id id;
    std::string source;
    Clock::time_point since;
  };
  bool has_place(const std::string& source) const;
  void admit(const std::string& source);

  const AdmissionLimits limits_;
  size_t strangers_ = 0;
  std::map<std::string, size_t> admitted_;  // of each source that has some
  std::deque<Waiting> waiting_;
  std::map<std::string, Clock::time_point> penalised_;  // until when
};

}  // namespace manta
