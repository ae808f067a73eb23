#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "manta/base/error_internal.h"
#include "manta/data/feed_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/io/shared_region_internal.h"

namespace manta::data {
namespace {

// A block's bytes. When the last column in them is released, the reader may reuse them.
class BlockBuffer : public arrow::Buffer {
 public:
  BlockBuffer(const uint8_t* data, int64_t size, std::shared_ptr<void> segment,
              std::shared_ptr<FeedOutbox> outbox, uint64_t block)
      : Buffer(data, size),
        segment_(std::move(segment)),
        outbox_(std::move(outbox)),
        block_(block) {}
  ~BlockBuffer() override {
    try {
      outbox_->post(ReleaseBlock{block_});
    } catch (const std::exception&) {  // the reader has gone, and the memory with it
    }
  }

 private:
  std::shared_ptr<void> segment_;
  std::shared_ptr<FeedOutbox> outbox_;
  uint64_t block_;
};

template <class... What>
[[noreturn]] void throw_nonsense(const What&... what) {
  throw Error(ErrorKind::kCorrupt, str("the data reader sent ", what...));
}

// Meanwhile sends messages that no thread sends. False once the deadline has passed.
bool wait_readable(FeedOutbox& outbox, Deadline deadline) {
  while (true) {
    pollfd entry{outbox.fd(), POLLIN, 0};
    if (outbox.pending()) entry.events |= POLLOUT;
    int ready = ::poll(&entry, 1, deadline.poll_milliseconds());
    if (ready > 0 && (entry.revents & POLLOUT) != 0) outbox.send_pending();
    if (ready > 0 && (entry.revents & ~POLLOUT) != 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) throw_errno("waiting for the data reader");
  }
}

bool in_order(const NewBlock& block) {
  if (block.windows.empty() || block.windows.front().first_row != block.first_row) return false;
  for (size_t i = 1; i < block.windows.size(); ++i) {
    if (block.windows[i].first_row <= block.windows[i - 1].first_row) return false;
  }
  return block.windows.back().first_row < block.first_row + block.rows;
}

}  // namespace

struct FeedClient::Segment {
  SharedRegion region;
};

FeedClient::FeedClient(UniqueFd socket, int rank, int world_size, std::chrono::milliseconds timeout)
    : outbox_(std::make_shared<FeedOutbox>(std::move(socket))),
      rank_(rank),
      world_size_(world_size),
      timeout_(timeout) {}

FeedClient::~FeedClient() = default;

void FeedClient::receive() {
  Frame frame;
  auto begin = Clock::now();
  auto deadline = Deadline::after(timeout_);
  while (!decoder_.next(&frame)) {
    IoStatus status = decoder_.receive(outbox_->fd(), MSG_DONTWAIT);
    if (status == IoStatus::kClosed) {
      throw Error(ErrorKind::kWorkerLost, "the data reader has gone");
    }
    if (status == IoStatus::kWouldBlock && !wait_readable(*outbox_, deadline)) {
      throw Error(ErrorKind::kTimeout,
                  str("rank ", rank_, " had to wait ", timeout_.count(),
                      " ms for rows: the data reader hangs, or one call of a function, or one part "
                      "of a file, takes longer than the run's collective_timeout"));
    }
  }
  wait_seconds_ = wait_seconds_ + std::chrono::duration<double>(Clock::now() - begin).count();
  auto message = decode_message<FromReader>(frame);
  std::visit([&](auto& each) { on(std::move(each)); }, message);
}

// Nothing if this worker has closed it meanwhile.
FeedClient::Pass* FeedClient::find(uint64_t pass) {
  if (pass >= next_pass_) throw_nonsense("something about pass ", pass, ", which was not opened");
  auto found = passes_.find(pass);
  return found == passes_.end() ? nullptr : found->second;
}

void FeedClient::on(NewSegment message) {
  auto segment = std::make_shared<Segment>();
  segment->region = SharedRegion::adopt(message.memory.take(), message.size);
  segments_[message.segment] = std::move(segment);
}

void FeedClient::on(DropSegment message) { segments_.erase(message.segment); }

void FeedClient::on(PassRanks message) {
  Pass* pass = find(message.pass);
  if (!pass) return;
  for (int32_t rank : message.ranks) {
    if (rank < 0 || rank >= world_size_)
      throw_nonsense("rank ", rank, ", where there are ", world_size_);
  }
  pass->own_ = std::make_shared<NodeRows>(pass->rule_, pass->from_, std::move(message.ranks));
}

void FeedClient::on(PassSchema message) {
  Pass* pass = find(message.pass);
  if (!pass) return;
  arrow::io::BufferReader reader(arrow::Buffer::FromString(std::move(message.schema)));
  arrow::ipc::DictionaryMemo memo;
  pass->schema_ = check(arrow::ipc::ReadSchema(&reader, &memo), "reading a schema");
}

void FeedClient::on(NewBlock message) {
  std::shared_ptr<BlockBuffer> buffer;
  if (message.size > 0) {
    auto found = segments_.find(message.segment);
    if (found == segments_.end() || message.size > found->second->region.size()) {
      throw_nonsense("block ", message.block, " of ", message.size, " bytes in segment ",
                     message.segment, ", which ",
                     found == segments_.end() ? "it has not announced" : "is smaller");
    }
    const auto& segment = found->second;
    buffer =
        std::make_shared<BlockBuffer>(segment->region.data(), static_cast<int64_t>(message.size),
                                      segment, outbox_, message.block);
  }
  Pass* pass = find(message.pass);
  if (!pass) return;  // the block goes back at once
  if (buffer && !pass->schema_) throw_nonsense("block ", message.block, " before its schema");
  if (message.first_row != pass->known_ || !in_order(message)) {
    throw_nonsense("block ", message.block, " of ", message.rows, " rows in ",
                   message.windows.size(), " windows from row ", message.first_row,
                   " on, where row ", pass->known_, " comes next");
  }
  FeedBlock block;
  block.first_row = message.first_row;
  block.end_row = message.first_row + message.rows;
  block.windows = std::move(message.windows);
  block.known = std::max(message.known, block.end_row);
  block.own = pass->own_;
  block.total = message.total;
  if (buffer) {
    arrow::io::BufferReader reader(buffer);
    auto options = arrow::ipc::IpcReadOptions::Defaults();
    options.use_threads = false;
    arrow::ipc::DictionaryMemo memo;
    block.batch = check(arrow::ipc::ReadRecordBatch(pass->schema_, &memo, options, &reader),
                        "reading a block from shared memory");
  }
  int64_t rows = block.batch ? block.batch->num_rows() : 0;
  if (rows != block.place_of(block.end_row)) {
    throw_nonsense("block ", message.block, " as ", block.place_of(block.end_row),
                   " rows, but it has ", rows);
  }
  pass->known_ = block.end_row;
  pass->blocks_.push_back(std::move(block));
}

void FeedClient::on(EndOfPass message) {
  Pass* pass = find(message.pass);
  if (!pass) return;
  if (message.rows != pass->known_) {
    throw_nonsense("the end of pass ", message.pass, " behind row ", message.rows, ", where row ",
                   pass->known_, " comes next");
  }
  pass->ended_ = true;
  pass->rows_decoded_ = message.rows_decoded;
}

// The message has had its effect: `receive` has returned, and the next call has a new deadline.
void FeedClient::on(AtWork message) { find(message.pass); }

void FeedClient::on(PassFailed message) {
  if (Pass* pass = find(message.pass)) pass->failed_ = std::move(message);
}

FeedClient::Pass::Pass(std::shared_ptr<FeedClient> feed, OpenPass open)
    : feed_(std::move(feed)),
      number_(feed_->next_pass_++),
      rule_{open.global_batch, open.smallest_rest, feed_->world_size(), open.drop_last},
      from_(open.from.rows) {
  open.pass = number_;
  known_ = open.from.rows;
  feed_->outbox_->post(open);
  feed_->passes_[number_] = this;
}

FeedClient::Pass::~Pass() {
  feed_->passes_.erase(number_);
  blocks_.clear();
  try {
    feed_->outbox_->post(ClosePass{number_});
  } catch (const std::exception&) {  // the reader has gone
  }
}

std::optional<FeedBlock> FeedClient::Pass::next(int64_t until) {
  if (blocks_.empty() && until > wanted_ && !ended_ && !failed_) {
    wanted_ = until;
    feed_->outbox_->post(WantRows{number_, until});
  }
  while (blocks_.empty()) {
    if (failed_) throw Error(failed_->kind, failed_->message);
    if (ended_) return std::nullopt;
    feed_->receive();
  }
  auto block = std::move(blocks_.front());
  blocks_.pop_front();
  return block;
}

}  // namespace manta::data
