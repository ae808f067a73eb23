#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "manta/data/feed_messages_internal.h"
#include "manta/data/piece_internal.h"
#include "manta/data/stream_internal.h"

namespace manta::data {

/// What is sent as one block.
struct BlockRows {
  /// All of the rows, or those that this node needs; null if it needs none.
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t first_row = 0, end_row = 0;
  std::vector<WindowPart> windows;
  int64_t known = 0;   ///< As of NewBlock.
  int64_t total = -1;  ///< As of NewBlock.
};

/// Rows [begin, end) of it, of which it has all.
BlockRows slice(const BlockRows& rows, int64_t begin, int64_t end);

/// Consecutive rows of a pass that wait to be sent as one block. A block costs its message, its
/// place in shared memory and its mapping, whatever its size: rows of small row groups travel
/// together.
class BlockCollector {
 public:
  /// Up to so many bytes are put together, which costs a copy; larger ones go by themselves.
  static constexpr int64_t kFullBytes = 1 << 20;

  bool empty() const { return windows_.empty(); }
  bool full() const { return bytes_ >= kFullBytes; }
  /// Whether this one fits beside what is there.
  bool takes(int64_t bytes) const { return empty() || bytes_ + bytes <= kFullBytes; }
  /// Rows [first_row, end_row) are there.
  int64_t first_row() const { return first_row_; }
  int64_t end_row() const { return end_row_; }

  /// The rows that follow those that are there. All batches have one schema.
  void add(StreamBlock block);
  /// The rows up to `end_row`, of which these batches have some: `block` says whose window they
  /// are, and has no batch.
  void add_some(const StreamBlock& block, int64_t end_row, Batches batches);
  /// Everything that is there; there is something.
  BlockRows take();

 private:
  Batches batches_;
  std::vector<WindowPart> windows_;
  int64_t first_row_ = 0, end_row_ = 0, bytes_ = 0;
};

/// The batch with this schema, of which it has the columns: batches may say differently whether
/// nulls are allowed, which matters to nobody.
std::shared_ptr<arrow::RecordBatch> conform(const std::shared_ptr<arrow::RecordBatch>& batch,
                                            const std::shared_ptr<arrow::Schema>& schema);

}  // namespace manta::data
