#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "manta/io/wait_watch_internal.h"

namespace manta::train {

/// What a rank was at, at some moment: in what its loop waited for others, and what it had begun
/// until then.
struct Activity {
  Wait::Kind kind = Wait::kNone;  ///< kNone: it does not wait for anybody.
  /// Which collective or pass it waits in; the report that it waits for, -1 if for none.
  int64_t number = -1;
  std::string what = {};                  ///< "in an allreduce (of step 12)"
  int64_t collectives = 0, passes = 0;    ///< Begun so far.
  std::map<int64_t, int64_t> taken = {};  ///< Batches, of each pass that is under way.

  template <class Archive>
  void serialize(Archive& archive) {
    archive(kind, number, what, collectives, passes, taken);
  }
};

/// What the driver knows of a rank.
struct RankView {
  Activity activity = {};  ///< The last one that it told.
  int64_t reports = 0;     ///< Made so far; the index of the next one.
  bool finished = false;
};

/// What is taken for a wait that never ends.
enum class Evidence {
  kCertain,
  /// Also that a rank waits for rows of which another has taken fewer batches: the reader may have
  /// no room for more until the other takes its own. But it may just be slow. So this is no reason
  /// to stop ranks, only an explanation when they have waited too long.
  kLikely,
};

struct Standstill {
  int rank = 0;         ///< One that waits,
  std::string message;  ///< and for what, and why it will never come.
};

/// Whether some rank waits for what will never come: for a rank that has returned, or for one that
/// waits for the first. Ranks whose last word is that they run may still do anything.
///
/// The ranks tell at different moments, and an activity may be long over when it arrives. With
/// kCertain that does no harm: a wait for a collective, for a report or for a pass to begin ends
/// only when the others have done something, and what they had done is part of what they tell. So
/// ranks that seem to wait for each other do.
std::optional<Standstill> find_standstill(const std::vector<RankView>& ranks,
                                          Evidence evidence = Evidence::kCertain);

}  // namespace manta::train
