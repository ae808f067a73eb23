#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "manta/data/exchange_messages_internal.h"
#include "manta/data/node_rows_internal.h"
#include "manta/data/piece_internal.h"
#include "manta/data/position_internal.h"

namespace manta::data {

struct ExchangeOptions {
  int node = 0;  ///< Its own number among `nodes`.
  int nodes = 1;
  /// Of decoded windows that some node has not taken its rows of. One window more always fits if
  /// every node waits for it.
  int64_t hold_bytes = 64 << 20;
  int64_t receive_bytes = 32 << 20;  ///< Of rows that were asked for and not taken.
  int64_t ask_bytes = 1 << 20;       ///< Of rows that are asked for at a time.
};

/// How the data readers of several nodes share one pass: node `w mod nodes` decodes window w, says
/// how many rows it gives, and keeps them until every node has taken those that its ranks need.
/// Since all nodes hear all counts, each knows the numbers of all rows, and so its own.
///
/// This is the state of one reader, without I/O: it is told what happened, and says what to send.
/// Rows are asked for, never pushed, so that whoever is slow limits what others keep for it
/// (`hold_bytes`) and never has more than it asked for (`receive_bytes`).
class WindowExchange {
 public:
  struct NeededRows {  ///< The rows [first_row, end_row) of the epoch, as far as this node needs
                       ///< them.
    int64_t window = 0, window_first_row = 0;
    int64_t first_row = 0, end_row = 0;
    int64_t total = NodeRows::kUnknown;  ///< As of NodeRows.
    int64_t rows = 0;                    ///< That this node needs,
    int64_t bytes = 0;                   ///< about,
    Batches batches;                     ///< and these are they; none if it needs none.
  };
  struct ToSend {
    int node = 0;
    std::variant<AskRows, PassedWindow> message;
  };

  /// `ranks`: of each node. `windows`: of the epoch; the pass begins in the one of `open.from`.
  /// Throws Error(kCorrupt) if there is no such window.
  WindowExchange(const OpenPass& open, int64_t windows, std::vector<std::vector<int32_t>> ranks,
                 const ExchangeOptions& options);

  int owner(int64_t window) const { return static_cast<int>(window % options_.nodes); }

  // ---- What happened. Each throws Error(kCorrupt) if it cannot have.

  /// This reader has decoded its next window. The batches are not empty.
  WindowRows add_window(int64_t window, Batches batches, int64_t bytes);
  /// Another has. Throws Error(kCorrupt) also if the position where the pass begins is not of this
  /// data.
  void counted(int node, const WindowRows& rows);
  void wants(int node, int64_t until);
  void passed(int node, int64_t window);
  /// No worker of it wants anything any more.
  void left(int node);
  /// What another node asks for; at least one row.
  Batches rows_for(int node, const AskRows& asked) const;
  /// The answer to what this one has asked another for.
  void arrived(int node, uint64_t request, Batches batches);
  /// Whether this node takes rows: it has not left.
  bool wants_rows() const { return !left_.contains(options_.node); }

  // ---- What follows.

  /// To be sent, in this order, and called after anything above, and after `take`.
  std::vector<ToSend> advance();
  /// Whether this reader should decode its next window now.
  bool may_decode() const;
  /// Whether `take` has something.
  bool ready() const { return !asked_.empty() && asked_.front().arrived; }
  NeededRows take();
  /// Whether there is nothing more to take.
  bool at_end() const { return ended() && asked_.empty() && row_ >= known_; }
  /// Whether every node has left.
  bool over() const;

  int64_t known() const { return known_; }  ///< So many rows are known to exist.
  const NodeRows& own() const { return rows_of_[static_cast<size_t>(options_.node)]; }

 private:
  struct Counted {
    int64_t rows = 0, bytes = 0;
    int64_t first_row = 0;  // once those before it are counted
  };
  struct Held {
    Batches batches;
    int64_t rows = 0, bytes = 0;
    std::optional<int64_t> first_row;  // once it is known
    std::set<int> wanted_by;
  };
  struct Asked : NeededRows {
    uint64_t request = 0;
    bool arrived = false;
    int node = 0;
  };

  bool ended() const { return next_unknown_ >= windows_; }
  void set_count(int node, const WindowRows& rows);
  void number_windows();
  Asked next_asked(const Counted& window, int64_t limit);
  void release(int64_t window, int node);

  const ExchangeOptions options_;
  const uint64_t pass_;
  const std::string dataset_;
  const Position from_;
  const int64_t windows_;
  std::vector<NodeRows> rows_of_;      // by node
  std::vector<int64_t> next_of_node_;  // by node: the next of its windows to be counted
  std::vector<int64_t> wanted_;        // by node
  std::set<int> left_;

  std::map<int64_t, Counted> counted_;  // from window_ on
  int64_t next_unknown_;                // the first window that is not counted
  int64_t known_;                       // rows before it

  std::map<int64_t, Held> held_;
  int64_t held_bytes_ = 0;

  int64_t window_;  // of row_
  int64_t row_;     // the next to ask for
  std::deque<Asked> asked_;
  int64_t receiving_bytes_ = 0;
  uint64_t next_request_ = 0;
};

}  // namespace manta::data
