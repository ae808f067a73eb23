#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/data/feed_messages_internal.h"
#include "manta/data/feed_outbox_internal.h"
#include "manta/data/node_rows_internal.h"
#include "manta/data/reading_choice_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/io/transport_internal.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

/// How the workers of one host get their rows: one process, the reader, runs each pass over a plan
/// once and puts its blocks into shared memory; every worker maps them and takes its slices. The
/// reader and each worker talk over a Unix socket, which also tells each that the other has died.
/// Neither ever waits to send: messages that a socket does not take are queued, and both sides go
/// on reading.
namespace manta::data {

struct FeedOptions {
  /// The number of threads that decode and compute for a pass. Called as each pass begins, on a
  /// separate thread.
  std::function<int()> threads = [] { return 1; };
  int64_t byte_budget =
      64 << 20;  ///< Bytes of blocks in shared memory, unless every worker waits for more.
  int64_t read_ahead = 128 << 20;  ///< Bytes of decoded rows that are not blocks yet,
  /// of which this many may be whole data sets, if they are no larger, kept for the next epochs.
  int64_t keep_decoded = 64 << 20;
  /// A pass that some worker never begins is an error after this.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// The readers of the other nodes, with which this one may share the reading (see WindowExchange).
/// Without any, it reads everything itself.
struct FeedPeers {
  int node = 0;                     ///< This reader's node, as numbered in the following.
  std::vector<std::string> hosts;   ///< Names, by node.
  std::vector<int32_t> node_ranks;  ///< Each rank's node, by rank.
  /// By node; null for this node.
  std::vector<std::unique_ptr<Transport>> connections;
  /// Share the reading whenever possible. If false, the first node's reader decides from
  /// measurements (reading_choice_internal.h).
  bool always = false;
  /// Called on the first node with how each data set is read, and why; also for the rest of an
  /// epoch, if a pass begins in its middle.
  std::function<void(const std::string&)> tell = {};
  /// Measures what the decision depends on. Tests replace the measurement.
  MeasureReading measure = measure_reading;
  std::optional<double> bytes_per_second = {};  ///< Speed between nodes. Default: measured.
};

/// The reader's side: serves the workers until all of them have closed their ends, and other nodes'
/// readers for as long as they need this node's windows.
void serve_feed(const std::map<std::string, std::shared_ptr<const Plan>>& plans,
                std::vector<UniqueFd> workers, const FeedOptions& options, FeedPeers peers = {});

/// Some rows in shared memory. They stay there for as long as anything holds the batch.
struct FeedBlock {
  std::shared_ptr<arrow::RecordBatch> batch;  ///< Null if it has no row of this node's.
  int64_t first_row = 0, end_row = 0;         ///< Rows of the epoch.
  std::vector<WindowPart> windows;
  int64_t known = 0;  ///< The number of rows of the epoch that are known to exist; at least
                      ///< `end_row`.
  /// Which of these rows are in the batch; null: all.
  std::shared_ptr<const NodeRows> own = nullptr;
  int64_t total = NodeRows::kUnknown;

  /// The place in the batch of a row that the batch has.
  int64_t place_of(int64_t row) const {
    return own ? own->count(first_row, row, total) : row - first_row;
  }
};

/// A worker's side. Only one thread at a time may use it, but batches may be released on any
/// thread.
class FeedClient : public std::enable_shared_from_this<FeedClient> {
 public:
  /// `timeout`: if no message comes for longer, not even AtWork, the reader counts as hung.
  FeedClient(UniqueFd socket, int rank, int world_size, std::chrono::milliseconds timeout);
  ~FeedClient();

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  /// One worker's part of a pass.
  class Pass {
   public:
    Pass(std::shared_ptr<FeedClient> feed, OpenPass open);
    ~Pass();
    Pass(const Pass&) = delete;

    /// The next block, for a caller that can do nothing before it has all rows before `until`;
    /// nothing at the end. Throws Error(kWorkerLost) if the reader has gone, Error(kCorrupt) if its
    /// message makes no sense.
    std::optional<FeedBlock> next(int64_t until);
    int64_t rows_decoded() const { return rows_decoded_; }  ///< Valid once the end was seen.

   private:
    friend class FeedClient;
    std::shared_ptr<FeedClient> feed_;
    const uint64_t number_;
    const StepRule rule_;
    const int64_t from_;
    std::shared_ptr<const NodeRows> own_;  // if its reading is split between hosts
    std::shared_ptr<arrow::Schema> schema_;
    std::deque<FeedBlock> blocks_;
    int64_t known_ = 0;   // the row after the last block
    int64_t wanted_ = 0;  // the row up to which the reader was asked for rows
    bool ended_ = false;
    int64_t rows_decoded_ = 0;
    std::optional<PassFailed> failed_;
  };

  /// Seconds spent waiting for rows.
  double wait_seconds() const { return wait_seconds_.load(); }

 private:
  struct Segment;
  void receive();
  Pass* find(uint64_t pass);
  void on(NewSegment message);
  void on(DropSegment message);
  void on(PassRanks message);
  void on(PassSchema message);
  void on(NewBlock message);
  void on(EndOfPass message);
  void on(PassFailed message);
  void on(AtWork message);

  // Shared with the blocks, which may outlive the client.
  const std::shared_ptr<FeedOutbox> outbox_;
  FrameDecoder decoder_;
  const int rank_, world_size_;
  const std::chrono::milliseconds timeout_;
  uint64_t next_pass_ = 0;
  std::map<uint64_t, Pass*> passes_;
  std::map<uint32_t, std::shared_ptr<Segment>> segments_;
  std::atomic<double> wait_seconds_{0};
};

}  // namespace manta::data
