#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "manta/data/exchange_messages_internal.h"

namespace manta::data {

/// What other nodes' readers have said about passes that this one does not take part in yet, and
/// which passes are over here: about those nothing is kept any more. Without I/O.
class EarlyMessages {
 public:
  /// What may be said before this reader takes part. All else is an answer to what it has said, and
  /// rows are never kept.
  using Message = std::variant<JoinPass, WindowRows, WantKnown, LeavePass, PassFailed>;
  struct Early {
    int node = 0;
    Message message;
  };

  /// Others say how many rows their windows give until their budgets are full, which windows
  /// without rows never make them: by default there is room for more than a million.
  explicit EarlyMessages(size_t most_bytes = size_t{256} << 20) : most_bytes_(most_bytes) {}

  /// Throws Error(kCorrupt) if that is too much. Not of a pass that is over.
  void keep(uint64_t pass, int node, Message message);
  /// What was kept, in order; it is not any longer.
  std::vector<Early> take(uint64_t pass);
  /// Why the pass has failed elsewhere, if that was said.
  std::optional<PassFailed> failure(uint64_t pass) const;

  /// The pass is over here. Passes are numbered in the order in which they begin, so this takes
  /// memory only while one with a smaller number is not over.
  void end(uint64_t pass);
  bool is_over(uint64_t pass) const { return pass < all_over_ || over_.contains(pass); }

  size_t bytes() const { return bytes_; }  ///< That are kept.

 private:
  const size_t most_bytes_;
  size_t bytes_ = 0;
  std::map<uint64_t, std::vector<Early>> kept_;  // by pass
  uint64_t all_over_ = 0;                        // those before it are over,
  std::set<uint64_t> over_;                      // and these behind it
};

}  // namespace manta::data
