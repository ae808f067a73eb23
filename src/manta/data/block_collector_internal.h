#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "manta/data/feed_messages_internal.h"
#include "manta/data/piece_internal.h"
#include "manta/data/stream_internal.h"

namespace manta::data {

/// The rows that are sent as one block.
struct BlockRows {
  /// All of the rows, or those that this node needs; null if it needs none.
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t first_row = 0, end_row = 0;
  std::vector<WindowPart> windows;
  int64_t known = 0;   ///< As in NewBlock.
  int64_t total = -1;  ///< As in NewBlock.
};

/// Rows [begin, end) of `rows`, which must have all of them.
BlockRows slice(const BlockRows& rows, int64_t begin, int64_t end);

/// Consecutive rows of a pass that wait to be sent as one block. Each block costs a message, a
/// place in shared memory and a mapping, whatever its size. So rows of small row groups travel
/// together.
class BlockCollector {
 public:
  /// Up to this many bytes are put together, which costs a copy; larger batches are sent by
  /// themselves.
  static constexpr int64_t kFullBytes = 1 << 20;

  bool empty() const { return windows_.empty(); }
  bool full() const { return bytes_ >= kFullBytes; }
  /// Whether a batch of this size fits with the rows collected so far.
  bool takes(int64_t bytes) const { return empty() || bytes_ + bytes <= kFullBytes; }
  /// Rows [first_row, end_row) have been collected.
  int64_t first_row() const { return first_row_; }
  int64_t end_row() const { return end_row_; }

  /// Adds the rows that follow. All batches have one schema.
  void add(StreamBlock block);
  /// Adds the rows up to `end_row`, of which these batches have some. `block` names their window,
  /// and has no batch.
  void add_some(const StreamBlock& block, int64_t end_row, Batches batches);
  /// Takes all collected rows; there must be some.
  BlockRows take();

 private:
  Batches batches_;
  std::vector<WindowPart> windows_;
  int64_t first_row_ = 0, end_row_ = 0, bytes_ = 0;
};

/// The batch with this schema, whose columns it has. Batches may differ only in whether nulls are
/// allowed, which does not matter.
std::shared_ptr<arrow::RecordBatch> conform(const std::shared_ptr<arrow::RecordBatch>& batch,
                                            const std::shared_ptr<arrow::Schema>& schema);

}  // namespace manta::data
