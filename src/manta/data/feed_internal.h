#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "manta/base/json.h"
#include "manta/core/message_codec_internal.h"
#include "manta/data/step_internal.h"
#include "manta/data/stream_internal.h"
#include "manta/io/channel.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

/// How the workers of one host get their rows: one process, the reader, runs each pass over a plan
/// once and puts its blocks into shared memory; every worker maps them and takes its slices. The
/// two talk over a Unix socket each, which also tells each that the other has died.
namespace manta::data {

/// Where a worker is in a data set: the same on every worker, and enough to go on from there.
struct Position {
  int64_t epoch = 0;
  int64_t rows = 0;              ///< Of the epoch, taken by all workers together.
  int64_t window = 0;            ///< Where reading must begin to go on from there,
  int64_t window_first_row = 0;  ///< and the row that this window begins with.

  bool operator==(const Position&) const = default;
  Json to_json() const;
  static Position from_json(const Json& json);
  template <class Archive>
  void serialize(Archive& archive) {
    archive(epoch, rows, window, window_first_row);
  }
};

// ---- What a worker says.

struct OpenPass {  // the same from every worker, or all of them fail
  uint64_t pass = 0;
  std::string dataset;
  Position from;
  int64_t global_batch = 0;
  bool drop_last = false;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, dataset, from, global_batch, drop_last);
  }
};
struct ReleaseBlock {
  uint64_t block = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(block);
  }
};
struct WantRows {  // this worker can do nothing before it has the row `from`
  uint64_t pass = 0;
  int64_t from = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, from);
  }
};
struct ClosePass {  // this worker wants no more of it
  uint64_t pass = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass);
  }
};
using ToReader = std::variant<OpenPass, ReleaseBlock, WantRows, ClosePass>;

// ---- What the reader says.

struct NewSegment {  // before the first block in it
  uint32_t segment = 0;
  uint64_t size = 0;
  SharedFd memory;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(segment, size, memory);
  }
};
struct DropSegment {  // no block will come in it any more
  uint32_t segment = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(segment);
  }
};
struct PassSchema {  // before the first block of a pass
  uint64_t pass = 0;
  std::string schema;  // as Arrow serialises it
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, schema);
  }
};
struct NewBlock {
  uint64_t pass = 0;
  uint64_t block = 0;
  uint32_t segment = 0;
  uint64_t size = 0;
  int64_t first_row = 0, rows = 0;
  int64_t window = 0, window_first_row = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass, block, segment, size, first_row, rows, window, window_first_row);
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
using FromReader =
    std::variant<NewSegment, DropSegment, PassSchema, NewBlock, EndOfPass, PassFailed>;

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
  int64_t window = 0;
  int64_t window_first_row = 0;
};

/// A worker's side. One thread at a time.
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

    /// The next block; nothing at the end. Throws Error(kWorkerLost) if the reader has gone.
    std::optional<FeedBlock> next();
    int64_t rows_decoded() const { return rows_decoded_; }  ///< Once the end was seen.

   private:
    friend class FeedClient;
    std::shared_ptr<FeedClient> feed_;
    const uint64_t number_;
    std::shared_ptr<arrow::Schema> schema_;
    std::deque<FeedBlock> blocks_;
    int64_t known_ = 0;  // the row behind the last block
    bool ended_ = false;
    int64_t rows_decoded_ = 0;
    std::optional<PassFailed> failed_;
  };

  /// Seconds spent waiting for rows.
  double wait_seconds() const { return wait_seconds_.load(); }
  /// Rows of this worker's last slice, times the workers, over the rows of that step: what its
  /// gradient counts for in the average. Of the loop that took a batch last and is not over; 1 if
  /// there is none.
  double last_weight() const { return last_weight_.load(); }
  void set_weight(const void* loop, double weight);
  void forget_weight(const void* loop);

 private:
  struct Segment;
  void receive();
  void on(NewSegment message);
  void on(DropSegment message);
  void on(PassSchema message);
  void on(NewBlock message);
  void on(EndOfPass message);
  void on(PassFailed message);

  // Shared with the blocks, which may outlive the client.
  const std::shared_ptr<Channel> channel_;
  const int rank_, world_size_;
  const std::chrono::milliseconds timeout_;
  uint64_t next_pass_ = 0;
  std::map<uint64_t, Pass*> passes_;
  std::map<uint32_t, std::shared_ptr<Segment>> segments_;
  std::atomic<double> wait_seconds_{0};
  std::atomic<double> last_weight_{1};
  std::vector<std::pair<const void*, double>> weights_;  // the latest last
};

}  // namespace manta::data
