#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/data/feed_messages_internal.h"
#include "manta/data/feed_outbox_internal.h"
#include "manta/io/channel_internal.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

/// How the workers of one host get their rows: one process, the reader, runs each pass over a plan
/// once and puts its blocks into shared memory; every worker maps them and takes its slices. The
/// two talk over a Unix socket each, which also tells each that the other has died. Neither ever
/// waits to send: what a socket does not take is queued, and both go on reading.
namespace manta::data {

struct Plan;

struct FeedOptions {
  int threads = 1;  ///< That decode and compute, for each pass.
  int64_t byte_budget =
      64 << 20;  ///< Of blocks in shared memory, unless every worker waits for more.
  int64_t read_ahead = 128 << 20;  ///< Of decoded rows before that.
  /// A pass that some worker never begins is an error after this.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// The reader's side: serves the workers until they have all closed their ends.
void serve_feed(const std::map<std::string, std::shared_ptr<const Plan>>& plans,
                std::vector<UniqueFd> workers, const FeedOptions& options);

/// Some rows in shared memory. They stay there for as long as somebody holds the batch.
struct FeedBlock {
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t first_row = 0;
  std::vector<WindowPart> windows;
};

/// A worker's side. One thread at a time; only batches may be let go of on any thread.
class FeedClient : public std::enable_shared_from_this<FeedClient> {
 public:
  /// `timeout`: longer without a block means that the reader hangs.
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
    /// nothing at the end. Throws Error(kWorkerLost) if the reader has gone, Error(kCorrupt) if it
    /// says what makes no sense.
    std::optional<FeedBlock> next(int64_t until);
    int64_t rows_decoded() const { return rows_decoded_; }  ///< Once the end was seen.

   private:
    friend class FeedClient;
    std::shared_ptr<FeedClient> feed_;
    const uint64_t number_;
    std::shared_ptr<arrow::Schema> schema_;
    std::deque<FeedBlock> blocks_;
    int64_t known_ = 0;   // the row behind the last block
    int64_t wanted_ = 0;  // what the reader was asked for
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
  void on(PassSchema message);
  void on(NewBlock message);
  void on(EndOfPass message);
  void on(PassFailed message);

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
