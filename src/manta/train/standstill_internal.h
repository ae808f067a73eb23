#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "manta/io/wait_watch_internal.h"

namespace manta::train {

/// The state of a rank at some moment: the wait of its loop for others, and what the loop had begun
/// until then.
struct Activity {
  Wait::Kind kind = Wait::kNone;  ///< kNone: it does not wait for another rank.
  /// The number of the collective or pass that it waits in, or of the report that it waits for; -1
  /// if none.
  int64_t number = -1;
  std::string what = {};                  ///< "in an allreduce (of step 12)"
  int64_t collectives = 0, passes = 0;    ///< Begun so far.
  std::map<int64_t, int64_t> taken = {};  ///< Batches taken from each pass that is under way.

  template <class Archive>
  void serialize(Archive& archive) {
    archive(kind, number, what, collectives, passes, taken);
  }
};

/// What the driver knows about a rank.
struct RankView {
  Activity activity = {};  ///< The last activity that it reported.
  int64_t reports = 0;     ///< Reports made so far; also the index of the next one.
  bool finished = false;
};

/// What counts as evidence of a wait that never ends.
enum class Evidence {
  kCertain,
  /// Also counts a wait for rows of a pass from which another rank has taken fewer batches: the
  /// reader may have no room for more until the other rank takes its rows. But the reader may just
  /// be slow. So this is no reason to stop ranks, only an explanation when they have waited too
  /// long.
  kLikely,
};

struct Standstill {
  int rank = 0;         ///< A rank that waits,
  std::string message;  ///< what it waits for, and why that will never come.
};

/// Finds a rank that waits for something that will never come: for a rank that has returned, or for
/// one that waits for the first rank. Ranks whose last message says that they run may still do
/// anything.
///
/// The ranks report at different moments, and an activity may be long over when its message
/// arrives. With kCertain that does no harm: a wait for a collective, for a report or for a pass to
/// begin ends only when the others have done something, and their messages say what they had done.
/// So ranks that seem to wait for each other really do.
std::optional<Standstill> find_standstill(const std::vector<RankView>& ranks,
                                          Evidence evidence = Evidence::kCertain);

}  // namespace manta::train
