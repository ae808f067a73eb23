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

/// How many strangers a listener serves, and for how long. A stranger is a connection whose first
/// frame has not been taken.
struct AdmissionLimits {
  size_t max_strangers = 64;                  ///< Strangers of all sources together.
  size_t max_per_source = 16;                 ///< Strangers of one source (the address of a host).
  size_t max_waiting = 256;                   ///< Accepted connections that wait for a place.
  std::chrono::milliseconds stay{10'000};     ///< How long one stranger may hold its place without
                                              ///< a frame.
  std::chrono::milliseconds patience{2'000};  ///< How long the queue may stay full.
  std::chrono::milliseconds penalty{10'000};  ///< How long a source that kept it full may not wait.
};

/// Decides which connections a listener serves. Does no I/O.
///
/// Expected peers may come in hundreds at once, even from one address. Each needs a place for a few
/// milliseconds, so they wait for one, in order. A source that holds its places without progress
/// does not keep other sources out: it gets at most a quarter of the places. Once the queue has
/// been full for `patience`, the source with most of the waiting connections loses them, and for
/// the time of `penalty` its connections may not wait: those beyond its places are closed at once.
/// (An expected peer behind the same address then has to connect again.)
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
  /// Call it when an admitted connection is no longer a stranger, or is closed.
  void leave(const std::string& source);
  /// Admits a waiting connection, if there is a place for one.
  std::optional<Id> next();
  /// The waiting connections to close because the queue has been full for too long.
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
  std::map<std::string, size_t> admitted_;  // strangers of each source that has any
  std::deque<Waiting> waiting_;
  std::map<std::string, Clock::time_point> penalised_;  // until when
};

}  // namespace manta
