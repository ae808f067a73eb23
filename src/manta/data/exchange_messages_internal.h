#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "manta/base/names_internal.h"
#include "manta/core/message_codec_internal.h"
#include "manta/data/feed_messages_internal.h"

/// What the data readers of a group's nodes say to each other, over a connection between each two.
namespace manta::data {

struct PassPlan {  // from the first node's reader: how all of them read a pass
  OpenPass open;
  bool split = false;
  int64_t windows = 0;  // of the epoch; of a pass that is split
  template <class Archive>
  void serialize(Archive& archive) {
    archive(open, split, windows);
  }
};
struct JoinPass {  // this reader takes part in a pass that is split; before all else about it
  OpenPass open;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(open);
  }
};
struct WindowRows {  // this reader has decoded a window, the next of its own; to all others
  uint64_t pass = 0;
  int64_t window = 0;
  int64_t rows = 0;
  int64_t bytes = 0;  // about
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, window, rows, bytes);
  }
};
struct WantKnown {  // no worker of this node can do anything before so many rows are known to exist
  uint64_t pass = 0;
  int64_t until = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, until);
  }
};
/// Asks for those of the rows [begin, end) of a window that the asking node's ranks take;
/// answered by RowsPart. `total` as of NodeRows. Whoever has decoded the window may not have heard
/// yet how many rows are before it.
struct AskRows {
  uint64_t pass = 0;
  uint64_t request = 0;
  int64_t window = 0, window_first_row = 0;
  int64_t begin = 0, end = 0;
  int64_t total = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, request, window, window_first_row, begin, end, total);
  }
};
struct RowsSchema {  // before the first rows of a pass
  uint64_t pass = 0;
  std::string schema;  // as Arrow serialises it
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, schema);
  }
};
struct RowsPart {  // of a record batch as Arrow serialises it, which may be larger than a frame
  uint64_t pass = 0;
  uint64_t request = 0;
  bool last = false;
  std::string bytes;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, request, last, bytes);
  }
};
struct PassedWindow {  // this node will ask for no more rows of a window
  uint64_t pass = 0;
  int64_t window = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, window);
  }
};
struct LeavePass {  // no worker of this node wants more of it; its windows are still decoded here
  uint64_t pass = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass);
  }
};
struct Probe {  // answered by ProbeSeen at once: measures the connection
  uint64_t number = 0;
  std::string bytes;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(number, bytes);
  }
};
struct ProbeSeen {
  uint64_t number = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(number);
  }
};
using BetweenReaders =
    std::variant<PassPlan, JoinPass, WindowRows, WantKnown, AskRows, RowsSchema, RowsPart,
                 PassedWindow, LeavePass, PassFailed, Probe, ProbeSeen>;

}  // namespace manta::data
