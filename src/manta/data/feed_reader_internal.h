#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/data/block_collector_internal.h"
#include "manta/data/feed_internal.h"
#include "manta/data/segment_pool_internal.h"
#include "manta/data/stream_internal.h"
#include "manta/io/async_channel_internal.h"

namespace manta::data {

/// What `serve_feed` runs. One thread, the loop's, reads what workers say. A thread for each pass,
/// its pump, takes rows from a stream and queues them for the workers. Neither ever waits to send:
/// what a socket does not take, the loop sends later. The blocks that workers hold, and so the
/// queues, are bounded by the byte budget.
class FeedReader {
 public:
  FeedReader(const std::map<std::string, std::shared_ptr<const Plan>>& plans,
             std::vector<UniqueFd> workers, const FeedOptions& options);
  ~FeedReader();
  /// Until all workers have closed their ends.
  void run();

 private:
  struct Block {
    std::unique_ptr<Segment> segment;
    std::set<size_t> holders;
  };
  // A segment while a block is being written to it. What nobody takes goes back.
  struct BorrowedSegment {
    BorrowedSegment(FeedReader& owner, std::unique_ptr<Segment> taken)
        : reader(owner), segment(std::move(taken)) {}
    ~BorrowedSegment() {
      if (!segment) return;
      std::lock_guard lock(reader.loop_.mutex);
      reader.give_back(std::move(segment));
    }
    BorrowedSegment(const BorrowedSegment&) = delete;

    FeedReader& reader;
    std::unique_ptr<Segment> segment;
  };
  struct Pass {
    OpenPass open;
    std::vector<bool> opened, closed;  // by rank
    Clock::time_point since = Clock::now();
    std::vector<int64_t> wanted;  // by rank: it can do nothing before it has all rows before this
    std::optional<PassFailed> failed;
    bool stopping = false;  // nobody wants more of it
    bool done = true;       // its thread will not take the lock any more
    std::thread thread;

    ~Pass() {
      if (thread.joinable()) thread.join();
    }
  };

  // ---- What the loop's thread does, always with the lock held (feed_reader.cc).
  void read(size_t rank, Frame& frame);
  void on_closed(size_t rank, const std::string& why);
  void on(size_t rank, const OpenPass& message);
  void on(size_t rank, const ReleaseBlock& message);
  void on(size_t rank, const WantRows& message);
  void on(size_t rank, const ClosePass& message);
  void begin(std::unique_ptr<Pass>& pass, const OpenPass& open);
  void close(Pass& pass, size_t rank);
  void release(uint64_t number, size_t rank);
  void look_after_passes();

  // ---- What the thread of a pass does (feed_pump.cc).
  void run_pump(Pass& pass);
  void pump(Pass& pass);
  /// Null if nobody wants the pass any more.
  std::unique_ptr<Stream> open_stream(const Pass& pass);
  std::shared_ptr<const Plan> stage_of(const OpenPass& open, const StreamOptions& options,
                                       const std::function<bool()>& stopping);
  bool wait_for_rows(const Pass& pass, const Stream& stream, const BlockCollector& collected);
  void send_schema(const Pass& pass, const arrow::Schema& schema);
  bool send_block(Pass& pass, const BlockRows& rows, int64_t whole = INT64_MAX);
  void announce(const Block& block, const NewBlock& message);
  std::unique_ptr<Segment> take_segment(const Pass& pass, int64_t size, int64_t first_row);

  // ---- With the lock held, on any thread.
  static bool all_opened(const Pass& pass);
  static bool is_wanted(const Pass& pass, const BlockCollector& collected);
  void fail(Pass& pass, ErrorKind kind, const std::string& why);
  void give_back(std::unique_ptr<Segment> segment);
  template <class Message>
  void send_all(const Pass& pass, const Message& message) {
    for (size_t rank = 0; rank < channels_.size(); ++rank) {
      if (pass.opened[rank] && !pass.closed[rank]) send(rank, message);
    }
  }
  template <class Message>
  void send(size_t rank, const Message& message) {
    encode_message<FromReader>(channels_[rank]->out_to_flush(), message);
    channels_[rank]->flush();
  }

  const FeedOptions options_;
  const std::map<std::string, std::shared_ptr<const Plan>> plans_;

  /// Of the plans' functions: the same in every pass.
  std::vector<std::shared_ptr<BatchHelpers>> helpers_;

  /// By data set: the last stage over rows that are the same in every epoch, once they were made.
  std::mutex stages_mutex_;
  std::map<std::string, std::shared_ptr<const Plan>> stages_;

  EventLoop loop_;  // its mutex guards what follows
  std::vector<std::shared_ptr<AsyncChannel>> channels_;
  std::condition_variable changed_;
  std::unique_ptr<EventLoop::Timer> timer_;
  std::vector<bool> open_;
  std::map<uint64_t, std::unique_ptr<Pass>> passes_;
  std::map<uint64_t, Block> blocks_;  // that somebody holds
  SegmentPool segments_;
  int64_t in_use_ = 0;  // bytes of segments that blocks are in, or are being written to
  uint64_t next_block_ = 0;
};

}  // namespace manta::data
