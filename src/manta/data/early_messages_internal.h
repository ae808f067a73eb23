#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "manta/data/exchange_messages_internal.h"

namespace manta::data {

/// Messages of other nodes' readers about passes that this reader does not take part in yet, and
/// the passes that are over here: for those, no message is kept any more. Does no I/O.
class EarlyMessages {
 public:
  /// The messages that may come before this reader takes part. All other messages are answers to
  /// its own, and rows are never kept.
  using Message = std::variant<JoinPass, WindowRows, WantKnown, LeavePass, PassFailed>;
  struct Early {
    int node = 0;
    Message message;
  };

  /// Other nodes send the row counts of their windows until their budgets are full, and windows
  /// without rows never fill those: by default there is room for more than a million.
  explicit EarlyMessages(size_t most_bytes = size_t{256} << 20) : most_bytes_(most_bytes) {}

  /// Keeps a message, unless its pass is over. Throws Error(kCorrupt) if that is too much.
  void keep(uint64_t pass, int node, Message message);
  /// Takes out the messages of a pass, in order.
  std::vector<Early> take(uint64_t pass);
  /// Why the pass has failed on another node, if a message said so.
  std::optional<PassFailed> failure(uint64_t pass) const;

  /// Call it when the pass is over here. Passes are numbered in the order in which they begin, so
  /// this takes memory only while a pass with a smaller number is not over.
  void end(uint64_t pass);
  bool is_over(uint64_t pass) const { return pass < all_over_ || over_.contains(pass); }

  size_t bytes() const { return bytes_; }  ///< Bytes of kept messages.

 private:
  const size_t most_bytes_;
  size_t bytes_ = 0;
  std::map<uint64_t, std::vector<Early>> kept_;  // by pass
  uint64_t all_over_ = 0;                        // passes with smaller numbers are over,
  std::set<uint64_t> over_;                      // and so are these later ones
};

}  // namespace manta::data
