#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>

#include "manta/data/feed_internal.h"
#include "manta/io/arrow_status.h"
#include "manta/io/shared_region_internal.h"

namespace manta::data {
namespace {

template <class Message>
void send(Channel& channel, const Message& message) {
  channel.send([&](OutBuffer& out) { encode_message<ToReader>(out, message); });
}

// A block's bytes. When the last column that lies in them goes, the reader may use them again.
class BlockBuffer : public arrow::Buffer {
 public:
  BlockBuffer(const uint8_t* data, int64_t size, std::shared_ptr<void> segment,
              std::shared_ptr<Channel> channel, uint64_t block)
      : Buffer(data, size),
        segment_(std::move(segment)),
        channel_(std::move(channel)),
        block_(block) {}
  ~BlockBuffer() override {
    try {
      send(*channel_, ReleaseBlock{block_});
    } catch (const std::exception&) {  // the reader has gone, and the memory with it
    }
  }

 private:
  std::shared_ptr<void> segment_;
  std::shared_ptr<Channel> channel_;
  uint64_t block_;
};

}  // namespace

struct FeedClient::Segment {
  SharedRegion region;
};

Json Position::to_json() const {
  return {
      {"epoch", epoch}, {"rows", rows}, {"window", window}, {"window_first_row", window_first_row}};
}

Position Position::from_json(const Json& json) {
  return {json.at("epoch"), json.at("rows"), json.at("window"), json.at("window_first_row")};
}

FeedClient::FeedClient(UniqueFd socket, int rank, int world_size, std::chrono::milliseconds timeout)
    : channel_(std::make_shared<Channel>(std::move(socket))),
      rank_(rank),
      world_size_(world_size),
      timeout_(timeout) {}

FeedClient::~FeedClient() = default;

void FeedClient::set_weight(const void* loop, double weight) {
  if (weights_.empty() || weights_.back().first != loop) {
    std::erase_if(weights_, [&](const auto& each) { return each.first == loop; });
    weights_.emplace_back(loop, weight);
  }
  weights_.back().second = weight;
  last_weight_ = weight;
}

void FeedClient::forget_weight(const void* loop) {
  std::erase_if(weights_, [&](const auto& each) { return each.first == loop; });
  last_weight_ = weights_.empty() ? 1 : weights_.back().second;
}

void FeedClient::receive() {
  Frame frame;
  auto begin = Clock::now();
  bool there = false;
  try {
    there = channel_->receive(&frame, Deadline::after(timeout_));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    throw Error(ErrorKind::kTimeout,
                str("rank ", rank_, " had to wait ", timeout_.count(),
                    " ms for rows: the data reader hangs, or reading takes longer than the run's "
                    "collective_timeout"));
  }
  wait_seconds_ = wait_seconds_ + std::chrono::duration<double>(Clock::now() - begin).count();
  if (!there) throw Error(ErrorKind::kWorkerLost, "the data reader has gone");
  auto message = decode_message<FromReader>(frame);
  std::visit([&](auto& each) { on(std::move(each)); }, message);
}

void FeedClient::on(NewSegment message) {
  auto segment = std::make_shared<Segment>();
  segment->region = SharedRegion::adopt(message.memory.take(), message.size);
  segments_[message.segment] = std::move(segment);
}

void FeedClient::on(DropSegment message) { segments_.erase(message.segment); }

void FeedClient::on(PassSchema message) {
  auto found = passes_.find(message.pass);
  if (found == passes_.end()) return;
  arrow::io::BufferReader reader(arrow::Buffer::FromString(std::move(message.schema)));
  arrow::ipc::DictionaryMemo memo;
  found->second->schema_ = check(arrow::ipc::ReadSchema(&reader, &memo), "reading a schema");
}

void FeedClient::on(NewBlock message) {
  auto segment = segments_.at(message.segment);
  auto buffer = std::make_shared<BlockBuffer>(
      segment->region.data(), static_cast<int64_t>(message.size), segment, channel_, message.block);
  auto found = passes_.find(message.pass);
  if (found == passes_.end()) return;  // closed meanwhile: goes back at once
  arrow::io::BufferReader reader(buffer);
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  arrow::ipc::DictionaryMemo memo;
  auto batch = check(arrow::ipc::ReadRecordBatch(found->second->schema_, &memo, options, &reader),
                     "reading a block from shared memory");
  found->second->known_ = message.first_row + batch->num_rows();
  found->second->blocks_.push_back(
      {std::move(batch), message.first_row, message.window, message.window_first_row});
}

void FeedClient::on(EndOfPass message) {
  auto found = passes_.find(message.pass);
  if (found == passes_.end()) return;
  found->second->ended_ = true;
  found->second->rows_decoded_ = message.rows_decoded;
}

void FeedClient::on(PassFailed message) {
  auto found = passes_.find(message.pass);
  if (found != passes_.end()) found->second->failed_ = std::move(message);
}

FeedClient::Pass::Pass(std::shared_ptr<FeedClient> feed, OpenPass open)
    : feed_(std::move(feed)), number_(feed_->next_pass_++) {
  open.pass = number_;
  known_ = open.from.rows;
  send(*feed_->channel_, open);
  feed_->passes_[number_] = this;
}

FeedClient::Pass::~Pass() {
  feed_->passes_.erase(number_);
  blocks_.clear();
  try {
    send(*feed_->channel_, ClosePass{number_});
  } catch (const std::exception&) {  // the reader has gone
  }
}

std::optional<FeedBlock> FeedClient::Pass::next() {
  if (blocks_.empty() && !ended_ && !failed_) {
    send(*feed_->channel_, WantRows{number_, known_});
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
