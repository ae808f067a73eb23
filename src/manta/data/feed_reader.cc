#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <poll.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "manta/data/feed_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/io/arrow_status.h"
#include "manta/io/shared_region_internal.h"

namespace manta::data {
namespace {

// Segments differ little in size, so that most blocks fit into most of them.
constexpr uint64_t kSegmentUnit = 256 << 10;
constexpr int64_t kMaxBlockBytes = 8 << 20;

std::string describe(const OpenPass& open) {
  return str("epoch ", open.from.epoch, " of '", open.dataset, "' from row ", open.from.rows,
             " in steps of ", open.global_batch, " rows", open.drop_last ? ", drop_last" : "");
}

bool same(const OpenPass& a, const OpenPass& b) {
  return a.dataset == b.dataset && a.from == b.from && a.global_batch == b.global_batch &&
         a.drop_last == b.drop_last;
}

class Reader {
 public:
  Reader(const std::map<std::string, std::shared_ptr<const Plan>>& plans,
         std::vector<UniqueFd> workers, const FeedOptions& options)
      : options_(options), plans_(plans) {
    for (auto& fd : workers) channels_.push_back(std::make_unique<Channel>(std::move(fd)));
    open_.assign(channels_.size(), true);
  }

  ~Reader() {
    for (auto& [number, pass] : passes_) stop(*pass);
  }

  void run() {
    while (std::find(open_.begin(), open_.end(), true) != open_.end()) {
      std::vector<pollfd> polled;
      std::vector<size_t> ranks;
      for (size_t rank = 0; rank < channels_.size(); ++rank) {
        if (!open_[rank]) continue;
        polled.push_back({channels_[rank]->fd(), POLLIN, 0});
        ranks.push_back(rank);
      }
      auto look = std::clamp<int64_t>(options_.timeout.count() / 20, 1, 1000);
      if (::poll(polled.data(), polled.size(), static_cast<int>(look)) < 0 && errno != EINTR) {
        throw_errno("poll");
      }
      for (size_t i = 0; i < polled.size(); ++i) {
        if (polled[i].revents != 0) read(ranks[i]);
      }
      look_after_passes();
    }
  }

 private:
  struct Segment {
    uint32_t id = 0;
    SharedRegion region;
    std::vector<bool> known;  // by rank
  };
  struct Block {
    std::unique_ptr<Segment> segment;
    std::set<size_t> holders;
  };
  struct Pass {
    OpenPass open;
    std::vector<bool> opened, closed;
    Clock::time_point since = Clock::now();
    std::vector<int64_t> wanted;  // by rank: the row that it waits for, -1 if it does not
    bool stopping = false;
    bool done = false;  // its thread has nothing more to do
    std::thread thread;
  };

  void read(size_t rank) {
    Frame frame;
    while (true) {
      IoStatus status;
      try {
        status = channels_[rank]->try_receive(&frame);
      } catch (const Error&) {
        status = IoStatus::kClosed;  // it died in the middle of a message
      }
      if (status == IoStatus::kWouldBlock) return;
      if (status == IoStatus::kClosed) return on_closed(rank);
      auto message = decode_message<ToReader>(frame);
      std::visit([&](auto& each) { on(rank, each); }, message);
    }
  }

  void on_closed(size_t rank) {
    std::lock_guard lock(mutex_);
    open_[rank] = false;
    for (auto& [number, pass] : passes_) close(*pass, rank);
    std::vector<uint64_t> held;
    for (auto& [number, block] : blocks_) {
      if (block.holders.contains(rank)) held.push_back(number);
    }
    for (uint64_t number : held) release(number, rank);
    changed_.notify_all();
  }

  void on(size_t rank, const OpenPass& message) {
    std::lock_guard lock(mutex_);
    auto& pass = passes_[message.pass];
    if (!pass) {
      pass = std::make_unique<Pass>();
      pass->open = message;
      pass->opened.assign(channels_.size(), false);
      pass->closed.assign(channels_.size(), false);
      pass->wanted.assign(channels_.size(), -1);
      pass->opened[rank] = true;
      if (!plans_.contains(message.dataset)) {
        return fail(*pass, ErrorKind::kNotFound,
                    str("no data set is named '", message.dataset, "'"));
      }
      // It reads ahead at once, and sends when all workers are there.
      pass->thread = std::thread([this, &pass = *pass] { pump(pass); });
    }
    pass->opened[rank] = true;
    if (!same(pass->open, message)) {
      size_t other = 0;
      while (other == rank || !pass->opened[other]) ++other;
      return fail(
          *pass, ErrorKind::kInvalidArgument,
          str("workers must iterate over the same data in the same way: rank ", rank, " asked for ",
              describe(message), " while rank ", other, " asked for ", describe(pass->open)));
    }
    changed_.notify_all();
  }

  void on(size_t rank, const ReleaseBlock& message) {
    std::lock_guard lock(mutex_);
    release(message.block, rank);
    changed_.notify_all();
  }

  void on(size_t rank, const WantRows& message) {
    std::lock_guard lock(mutex_);
    auto found = passes_.find(message.pass);
    if (found != passes_.end()) found->second->wanted[rank] = message.from;
    changed_.notify_all();
  }

  void on(size_t rank, const ClosePass& message) {
    std::lock_guard lock(mutex_);
    auto found = passes_.find(message.pass);
    if (found != passes_.end()) close(*found->second, rank);
    changed_.notify_all();
  }

  void close(Pass& pass, size_t rank) {
    pass.opened[rank] = pass.closed[rank] = true;
    if (std::find(pass.closed.begin(), pass.closed.end(), false) == pass.closed.end()) {
      pass.stopping = true;
    }
  }

  void release(uint64_t number, size_t rank) {
    auto found = blocks_.find(number);
    if (found == blocks_.end() || found->second.holders.erase(rank) == 0) return;
    if (!found->second.holders.empty()) return;
    in_use_ -= static_cast<int64_t>(found->second.segment->region.size());
    free_.push_back(std::move(found->second.segment));
    blocks_.erase(found);
  }

  // Passes that are over, and those that wait for somebody who does not come.
  void look_after_passes() {
    std::vector<std::unique_ptr<Pass>> over;
    {
      std::lock_guard lock(mutex_);
      for (auto it = passes_.begin(); it != passes_.end();) {
        Pass& pass = *it->second;
        if (pass.done && pass.stopping) {
          over.push_back(std::move(it->second));
          it = passes_.erase(it);
          continue;
        }
        ++it;
        if (pass.stopping || all_opened(pass) || Clock::now() - pass.since < options_.timeout) {
          continue;
        }
        std::string missing;
        for (size_t rank = 0; rank < pass.opened.size(); ++rank) {
          if (!pass.opened[rank]) missing += str(missing.empty() ? "" : ", ", rank);
        }
        fail(pass, ErrorKind::kTimeout,
             str("rank ", missing, " did not begin ", describe(pass.open), " within ",
                 options_.timeout.count(), " ms: every worker must iterate over a data set"));
      }
    }
    for (auto& pass : over) stop(*pass);
  }

  void stop(Pass& pass) {
    {
      std::lock_guard lock(mutex_);
      pass.stopping = true;
      changed_.notify_all();
    }
    if (pass.thread.joinable()) pass.thread.join();
  }

  static bool all_opened(const Pass& pass) {
    return std::find(pass.opened.begin(), pass.opened.end(), false) == pass.opened.end();
  }

  // With the lock held.
  void fail(Pass& pass, ErrorKind kind, const std::string& why) {
    send_all(pass, PassFailed{pass.open.pass, kind, why});
    pass.stopping = true;
    if (!pass.thread.joinable()) pass.done = true;
    changed_.notify_all();
  }

  template <class Message>
  void send_all(const Pass& pass, const Message& message) {
    for (size_t rank = 0; rank < channels_.size(); ++rank) {
      if (open_[rank] && pass.opened[rank] && !pass.closed[rank]) send(rank, message);
    }
  }
  template <class Message>
  void send(size_t rank, const Message& message) {
    channels_[rank]->send([&](OutBuffer& out) { encode_message<FromReader>(out, message); });
  }

  // The thread of a pass.
  void pump(Pass& pass) {
    try {
      const OpenPass open = pass.open;
      Stream stream(plans_.at(open.dataset),
                    {open.from.epoch, open.from.window, open.from.window_first_row},
                    {.threads = options_.threads, .byte_budget = options_.read_ahead});
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return pass.stopping || all_opened(pass); });
      }
      int64_t rows = open.from.rows;
      bool first = true;
      while (auto block = stream.next()) {
        int64_t skip =
            std::clamp<int64_t>(open.from.rows - block->first_row, 0, block->batch->num_rows());
        if (skip == block->batch->num_rows()) continue;
        auto batch = without_dictionaries(block->batch->Slice(skip));
        if (first) send_schema(pass, *batch->schema());
        first = false;
        rows = block->first_row + skip + batch->num_rows();
        if (!send_blocks(pass, *batch, block->first_row + skip, *block)) break;
      }
      std::lock_guard lock(mutex_);
      if (!pass.stopping) send_all(pass, EndOfPass{open.pass, rows, stream.rows_decoded()});
    } catch (const Error& error) {
      std::lock_guard lock(mutex_);
      fail(pass, error.kind(), error.what());
    } catch (const std::exception& error) {
      std::lock_guard lock(mutex_);
      fail(pass, ErrorKind::kUserCode, error.what());
    }
    std::lock_guard lock(mutex_);
    pass.done = true;
  }

  void send_schema(Pass& pass, const arrow::Schema& schema) {
    auto bytes = check(arrow::ipc::SerializeSchema(schema), "serialising a schema");
    std::lock_guard lock(mutex_);
    send_all(pass, PassSchema{pass.open.pass, bytes->ToString()});
  }

  // In parts of a few megabytes. False if nobody wants more.
  bool send_blocks(Pass& pass, const arrow::RecordBatch& batch, int64_t first_row,
                   const StreamBlock& from) {
    int64_t size = 0;
    check(arrow::ipc::GetRecordBatchSize(batch, &size), "measuring a block");
    int64_t parts = std::clamp<int64_t>(size / kMaxBlockBytes + 1, 1, batch.num_rows());
    for (int64_t i = 0; i < parts; ++i) {
      int64_t begin = batch.num_rows() * i / parts, end = batch.num_rows() * (i + 1) / parts;
      if (!send_block(pass, *batch.Slice(begin, end - begin), first_row + begin, from))
        return false;
    }
    return true;
  }

  bool send_block(Pass& pass, const arrow::RecordBatch& batch, int64_t first_row,
                  const StreamBlock& from) {
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    options.alignment = 64;
    int64_t size = 0;
    check(arrow::ipc::GetRecordBatchSize(batch, options, &size), "measuring a block");
    auto segment = take_segment(pass, static_cast<uint64_t>(size), first_row);
    if (!segment) return false;
    auto buffer = std::make_shared<arrow::MutableBuffer>(segment->region.data(), size);
    arrow::io::FixedSizeBufferWriter writer(buffer);
    int32_t metadata_length = 0;
    int64_t body_length = 0;
    check(arrow::ipc::WriteRecordBatch(batch, 0, &writer, &metadata_length, &body_length, options),
          "writing a block into shared memory");

    std::lock_guard lock(mutex_);
    NewBlock message{pass.open.pass, next_block_++,    segment->id, static_cast<uint64_t>(size),
                     first_row,      batch.num_rows(), from.window, from.window_first_row};
    Block block{std::move(segment), {}};
    for (size_t rank = 0; rank < channels_.size(); ++rank) {
      if (!open_[rank] || pass.closed[rank]) continue;
      block.holders.insert(rank);
      if (!block.segment->known[rank]) {
        block.segment->known[rank] = true;
        send(rank, NewSegment{block.segment->id, block.segment->region.size(),
                              SharedFd(block.segment->region.duplicate())});
      }
      send(rank, message);
    }
    if (block.holders.empty()) {
      free_.push_back(std::move(block.segment));
      return false;
    }
    in_use_ += static_cast<int64_t>(block.segment->region.size());
    blocks_.emplace(message.block, std::move(block));
    return true;
  }

  // Waits until the budget allows it, or until no worker can do anything before it has the row
  // `first_row`: then it must be given whatever else is held.
  std::unique_ptr<Segment> take_segment(Pass& pass, uint64_t size, int64_t first_row) {
    std::unique_lock lock(mutex_);
    auto all_want = [&] {
      for (size_t rank = 0; rank < channels_.size(); ++rank) {
        if (!pass.closed[rank] && pass.wanted[rank] < first_row) return false;
      }
      return true;
    };
    changed_.wait(lock, [&] {
      return pass.stopping || in_use_ + static_cast<int64_t>(size) <= options_.byte_budget ||
             all_want();
    });
    if (pass.stopping) return nullptr;
    auto fits = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if ((*it)->region.size() >= size &&
          (fits == free_.end() || (*it)->region.size() < (*fits)->region.size())) {
        fits = it;
      }
    }
    if (fits != free_.end()) {
      auto segment = std::move(*fits);
      free_.erase(fits);
      return segment;
    }
    int64_t unused = 0;
    for (const auto& segment : free_) unused += static_cast<int64_t>(segment->region.size());
    while (!free_.empty() && in_use_ + unused + static_cast<int64_t>(size) > options_.byte_budget) {
      auto segment = std::move(free_.front());
      free_.erase(free_.begin());
      unused -= static_cast<int64_t>(segment->region.size());
      for (size_t rank = 0; rank < channels_.size(); ++rank) {
        if (open_[rank] && segment->known[rank]) send(rank, DropSegment{segment->id});
      }
    }
    auto segment = std::make_unique<Segment>();
    segment->id = next_segment_++;
    segment->region =
        SharedRegion::create("manta-feed", (size + kSegmentUnit - 1) / kSegmentUnit * kSegmentUnit);
    segment->known.assign(channels_.size(), false);
    return segment;
  }

  const FeedOptions options_;
  const std::map<std::string, std::shared_ptr<const Plan>> plans_;
  std::vector<std::unique_ptr<Channel>> channels_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<bool> open_;
  std::map<uint64_t, std::unique_ptr<Pass>> passes_;
  std::map<uint64_t, Block> blocks_;  // that somebody holds
  std::vector<std::unique_ptr<Segment>> free_;
  int64_t in_use_ = 0;  // bytes of segments that blocks are in
  uint64_t next_block_ = 0;
  uint32_t next_segment_ = 0;
};

}  // namespace

void serve_feed(const std::map<std::string, std::shared_ptr<const Plan>>& plans,
                std::vector<UniqueFd> workers, const FeedOptions& options) {
  Reader(plans, std::move(workers), options).run();
}

}  // namespace manta::data
