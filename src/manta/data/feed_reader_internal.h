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
#include "manta/data/decoded_rows_internal.h"
#include "manta/data/early_messages_internal.h"
#include "manta/data/feed_internal.h"
#include "manta/data/reading_choice_internal.h"
#include "manta/data/segment_pool_internal.h"
#include "manta/data/stream_internal.h"
#include "manta/data/window_exchange_internal.h"
#include "manta/io/async_channel_internal.h"

namespace manta::data {

/// The reader that `serve_feed` runs. One thread, the loop's, reads the workers' messages. Each
/// pass has a thread, its pump, that takes rows from a stream and queues them for the workers.
/// Neither ever waits to send: what a socket does not take, the loop sends later. The byte budget
/// bounds the blocks that workers hold, and so the queues.
///
/// With peers, the readers of other nodes, the first node's reader decides how each pass is read.
/// If a pass's windows are split, a second thread of the pass decodes this node's windows, and the
/// loop's thread sends other nodes the rows that they ask for. Then the pump gets its rows from the
/// exchange instead of from a stream.
class FeedReader {
 public:
  FeedReader(const std::map<std::string, std::shared_ptr<const Plan>>& plans,
             std::vector<UniqueFd> workers, const FeedOptions& options, FeedPeers peers);
  ~FeedReader();
  /// Runs until all workers have closed their ends.
  void run();

 private:
  struct Block {
    std::unique_ptr<Segment> segment;
    std::set<size_t> holders;
  };
  // A segment while a block is being written to it. It goes back to the pool unless it is taken.
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
    int threads = 1;                   // that decode and compute
    std::vector<bool> opened, closed;  // by rank
    Clock::time_point since = Clock::now();
    std::vector<int64_t> wanted;  // by rank: the worker can do nothing before it has all rows
                                  // before this one
    std::optional<PassFailed> failed;
    bool stopping = false;  // no worker here wants more of it
    bool done = true;       // its threads will not take the lock any more
    std::thread thread;
    const WorkCountPtr work = std::make_shared<WorkCount>();  // counts only this pass
    WorkCountPtr stage_work;  // counts the stages before, which another pass may be running
    int64_t work_told = 0;    // the count that the last AtWork reported

    // For a pass with other nodes.
    std::optional<PassPlan> plan;              // how it is read, once that is known
    std::unique_ptr<WindowExchange> exchange;  // if its windows are split
    std::vector<bool> heard;                   // by node: whether it takes part
    int64_t wanted_told = 0;                   // the last WantKnown
    bool delivered = false;                    // the workers here have got all their rows
    bool decoding = false;                     // the decoder may take the lock
    std::atomic<int64_t> rows_decoded = 0;
    std::thread decoder;

    ~Pass() {
      if (thread.joinable()) thread.join();
      if (decoder.joinable()) decoder.join();
    }
  };
  // The reader of another node.
  struct Peer {
    struct Reply {
      uint64_t pass = 0, request = 0;
      Batches batches;
    };
    struct Answer {
      uint64_t pass = 0, request = 0;
      std::string bytes;
    };
    std::shared_ptr<AsyncChannel> channel;  // null once it has gone, and for this node's own place
    std::deque<Reply> replies;              // replies that wait until the one before is sent
    bool sending = false;
    std::set<uint64_t> has_schema;                                    // of these passes
    std::map<uint64_t, std::shared_ptr<arrow::Schema>> sent_schemas;  // by pass
    Answer part;                                                      // the answer that has begun
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
  void tell_work(Pass& pass);

  // ---- How it handles messages of other nodes' readers (feed_exchange.cc).
  void start_peers();
  void read_peer(int node, Frame& frame);
  void on_peer_closed(int node, const std::string& why);
  void on_peer(int node, PassPlan& message);
  void on_peer(int node, Probe& message);
  void on_peer(int node, ProbeSeen& message);
  template <class Message>
  void on_peer(int node, Message& message);
  void on_pass(int node, Pass& pass, const JoinPass& message);
  void on_pass(int node, Pass& pass, const WindowRows& message);
  void on_pass(int node, Pass& pass, const WantKnown& message);
  void on_pass(int node, Pass& pass, const AskRows& message);
  void on_pass(int node, Pass& pass, RowsSchema& message);
  void on_pass(int node, Pass& pass, RowsPart& message);
  void on_pass(int node, Pass& pass, const PassedWindow& message);
  void on_pass(int node, Pass& pass, const LeavePass& message);
  void on_pass(int node, Pass& pass, const PassFailed& message);
  void join_exchange(Pass& pass, int64_t windows);
  void send_replies(int node);
  void send_reply(int node, const Peer::Reply& reply);
  void tell_wants(Pass& pass);
  void advance(Pass& pass);
  void forget(Pass& pass);
  void drop_replies(Peer& peer, uint64_t pass);
  void drop_answers(uint64_t pass);
  void stop_if_over();
  void look_for_missing_peers(Pass& pass);
  bool is_over(const Pass& pass) const;
  std::vector<int32_t> ranks_of(int node) const;
  template <class Message>
  void send_peer(int node, const Message& message) {
    auto channel = peers_[static_cast<size_t>(node)].channel;  // a flush may find that it is closed
    if (!channel) return;
    encode_message<BetweenReaders>(channel->out_to_flush(), message);
    channel->flush();
  }
  template <class Message>
  void send_peers(const Message& message) {
    for (size_t node = 0; node < peers_.size(); ++node) send_peer(static_cast<int>(node), message);
  }

  // ---- What threads of a pass with other nodes do (split_pump.cc).
  /// Whether the pass's windows are split; waits until that is known.
  bool decide(Pass& pass);
  ReadingChoice choose(const Pass& pass);
  bool keeps_results(const std::string& dataset);
  double bytes_per_second();
  bool answers_probe(const std::string& bytes, Deadline deadline);
  void run_decoder(Pass& pass);
  void decode(Pass& pass);
  void pump_split(Pass& pass);
  bool send_collected(Pass& pass, BlockCollector& collected, int64_t total);
  static bool is_wanted_split(const Pass& pass, const BlockCollector& collected);

  // ---- What the thread of a pass does (feed_pump.cc).
  void run_pump(Pass& pass);
  void pump(Pass& pass);
  /// Null if no worker wants the pass any more. `of_own_windows`: a stream of the windows that this
  /// node decodes.
  std::unique_ptr<Stream> open_stream(Pass& pass, bool of_own_windows = false);
  /// The decoded rows of a data set; null if they are not kept.
  std::shared_ptr<DecodedRows> decoded_rows(const std::string& dataset);
  std::shared_ptr<const Plan> stage_of(Pass& pass, StreamOptions options,
                                       const std::function<bool()>& stopping);
  bool wait_for_rows(const Pass& pass, const Stream& stream, const BlockCollector& collected);
  void send_schema(const Pass& pass, const arrow::Schema& schema);
  bool send_block(Pass& pass, const BlockRows& rows, int64_t whole = INT64_MAX);
  bool send_without_rows(const Pass& pass, const BlockRows& rows);
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

  /// Helpers of the plans' functions: the same in every pass.
  std::vector<std::shared_ptr<BatchHelpers>> helpers_;

  /// The last stage over rows that are the same in every epoch.
  struct MadeStage {
    std::mutex mutex;                  // held while the stage is made
    std::shared_ptr<const Plan> plan;  // null until it was made
    const WorkCountPtr work = std::make_shared<WorkCount>();
  };
  std::map<std::string, MadeStage> stages_;  // of each data set; never changes
  const std::shared_ptr<ByteBudget> decoded_budget_;
  std::once_flag decoded_known_;
  /// For data sets that are read from files in each pass, and are small; see `decoded_rows`.
  std::map<std::string, std::shared_ptr<DecodedRows>> decoded_;
  int64_t expected_to_keep_ = 0;

  const int node_;
  const std::vector<std::string> hosts_;
  const std::vector<int32_t> node_ranks_;
  const bool always_split_;
  const std::function<void(const std::string&)> tell_;
  const MeasureReading measure_;
  /// By data set: how its whole epochs are read, once that was measured. Only on the first node.
  std::mutex choices_mutex_;
  std::map<std::string, ReadingChoice> choices_;
  std::set<std::string> told_of_kept_;
  std::optional<double> bytes_per_second_;

  EventLoop loop_;  // its mutex guards what follows
  std::vector<std::shared_ptr<AsyncChannel>> channels_;
  std::condition_variable changed_;
  std::unique_ptr<EventLoop::Timer> timer_;
  std::vector<bool> open_;
  bool ending_ = false;
  std::vector<Peer> peers_;                  // by node; none if there are no others
  std::map<uint64_t, PassPlan> plans_told_;  // for passes that no worker here has begun
  EarlyMessages early_;
  uint64_t probe_sent_ = 0, probe_seen_ = 0;
  std::map<uint64_t, std::unique_ptr<Pass>> passes_;
  std::map<uint64_t, Block> blocks_;  // blocks that a worker holds
  SegmentPool segments_;
  int64_t in_use_ = 0;  // bytes of segments that blocks are in, or are being written to
  uint64_t next_block_ = 0;
};

}  // namespace manta::data
