#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/message_codec_internal.h"
#include "manta/data/position_internal.h"

/// The messages between the data reader and the workers.
namespace manta::data {

// ---- Messages of a worker.

struct OpenPass {  // must be the same from every worker, or all of them fail
  uint64_t pass = 0;
  std::string dataset;
  Position from;
  int64_t global_batch = 0;
  int64_t smallest_rest = 0;
  bool drop_last = false;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, dataset, from, global_batch, smallest_rest, drop_last);
  }
};
/// For messages: "epoch 2 of 'train' from row 0 in steps of 64 rows ...".
std::string describe(const OpenPass& open);
/// Whether they ask for the same rows in the same steps, whatever their numbers.
bool same(const OpenPass& a, const OpenPass& b);

struct ReleaseBlock {
  uint64_t block = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(block);
  }
};
struct WantRows {  // this worker can do nothing before it has all rows before `until`
  uint64_t pass = 0;
  int64_t until = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, until);
  }
};
struct ClosePass {  // this worker wants no more of the pass
  uint64_t pass = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass);
  }
};
using ToReader = std::variant<OpenPass, ReleaseBlock, WantRows, ClosePass>;

// ---- Messages of the reader.

struct NewSegment {  // sent before the first block in it
  uint32_t segment = 0;
  uint64_t size = 0;
  SharedFd memory;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(segment, size, memory);
  }
};
struct DropSegment {  // no more blocks will come in it
  uint32_t segment = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(segment);
  }
};
/// The first message of a pass whose reading is split between hosts: its blocks have only the rows
/// that these ranks take, which are the ranks of the worker's node.
struct PassRanks {
  uint64_t pass = 0;
  std::vector<int32_t> ranks;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, ranks);
  }
};
struct PassSchema {  // sent before the first block of a pass
  uint64_t pass = 0;
  std::string schema;  // as Arrow serialises it
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, schema);
  }
};
/// From `first_row` up to the first row of the next part, a block's rows belong to this window.
struct WindowPart {
  int64_t first_row = 0;
  int64_t window = 0;
  int64_t window_first_row = 0;
  bool operator==(const WindowPart&) const = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(first_row, window, window_first_row);
  }
};
struct NewBlock {
  uint64_t pass = 0;
  uint64_t block = 0;
  uint32_t segment = 0;
  uint64_t size = 0;  // 0: the node's ranks take none of these rows, and nothing is in memory
  int64_t first_row = 0, rows = 0;
  std::vector<WindowPart> windows;  // in the order of their rows; the first part begins with the
                                    // block
  int64_t known = 0;                // the number of rows of the epoch that are known to exist, if
                                    // it is more
  int64_t total = -1;               // rows of the epoch, if it has to be known (see NodeRows)
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, block, segment, size, first_row, rows, windows, known, total);
  }
};
struct EndOfPass {
  uint64_t pass = 0;
  int64_t rows = 0;  // of the epoch
  int64_t rows_decoded = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, rows, rows_decoded);
  }
};
struct PassFailed {
  uint64_t pass = 0;
  ErrorKind kind = ErrorKind::kUserCode;
  std::string message;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, kind, message);
  }
};
struct AtWork {  // the pass makes progress, though it has no rows to give yet: wait longer
  uint64_t pass = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass);
  }
};
using FromReader = std::variant<NewSegment, DropSegment, PassSchema, NewBlock, EndOfPass,
                                PassFailed, PassRanks, AtWork>;

}  // namespace manta::data
