#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/feed_reader_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/stage_internal.h"
#include "manta/data/stop_check_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kMaxBlockBytes = 8 << 20;

}  // namespace

void FeedReader::run_pump(Pass& pass) {
  StopCheck check([this, &pass] {
    std::lock_guard lock(loop_.mutex);
    return pass.stopping;
  });
  try {
    pass.threads = options_.threads();
    pump(pass);
  } catch (const Error& error) {
    std::lock_guard lock(loop_.mutex);
    bool was_stopped = pass.stopping && error.kind() == ErrorKind::kCancelled;
    if (!was_stopped) fail(pass, error.kind(), error.what());
  } catch (const std::exception& error) {
    std::lock_guard lock(loop_.mutex);
    fail(pass, ErrorKind::kUserCode, error.what());
  }
  std::lock_guard lock(loop_.mutex);
  pass.done = true;
}

std::unique_ptr<Stream> FeedReader::open_stream(Pass& pass, bool of_own_windows) {
  const OpenPass& open = pass.open;
  check_position(open.from, open.dataset);
  auto decoded = decoded_rows(open.dataset);
  int64_t kept = std::max(expected_to_keep_, options_.keep_decoded - decoded_budget_->left());
  StreamOptions options{.threads = pass.threads,
                        .byte_budget = options_.read_ahead - kept,
                        .work = pass.work,
                        .decoded = decoded};
  if (of_own_windows) {
    options.byte_budget /= 2;  // the exchange has the other half
    options.by_window = true;
    options.part = node_;
    options.parts = static_cast<int64_t>(peers_.size());
  }
  auto wake = [this] {
    std::lock_guard lock(loop_.mutex);
    changed_.notify_all();
  };
  auto stopping = [&] {
    std::lock_guard lock(loop_.mutex);
    return pass.stopping;
  };
  // May read all of the data; errors there are not the position's fault.
  auto plan = stage_of(pass, options, stopping);
  if (!plan) return nullptr;
  try {
    return std::make_unique<Stream>(
        plan, StreamStart{open.from.epoch, open.from.window, open.from.window_first_row}, options,
        wake);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt || open.from.rows == 0) throw;
    throw_bad_position(open.from, open.dataset, error.what());
  }
}

// It is decided once which data sets are kept, in the order of their names and by their expected
// sizes, so that it does not depend on which is read first.
std::shared_ptr<DecodedRows> FeedReader::decoded_rows(const std::string& dataset) {
  std::call_once(decoded_known_, [&] {
    int64_t expected = 0;
    decltype(decoded_) decoded;  // a call that throws, as files may do, decides nothing
    for (const auto& [name, plan] : plans_) {
      if (plan->last_materialising() || plan->source->files().empty()) continue;
      int64_t bytes = Pipeline(plan).expect_to_keep();
      if (bytes > options_.keep_decoded - expected) continue;
      expected += bytes;
      decoded[name] = std::make_shared<DecodedRows>(decoded_budget_);
    }
    expected_to_keep_ = expected;
    decoded_ = std::move(decoded);
  });
  auto found = decoded_.find(dataset);
  return found == decoded_.end() ? nullptr : found->second;
}

// Passes of one data set that begin at the same time wait here for the pass that makes the rows.
std::shared_ptr<const Plan> FeedReader::stage_of(Pass& pass, StreamOptions options,
                                                 const std::function<bool()>& stopping) {
  const OpenPass& open = pass.open;
  const auto& plan = plans_.at(open.dataset);
  if (!plan->last_materialising() || stages_depend_on_epoch(*plan)) {
    return last_stage(plan, open.from.epoch, options, stopping);
  }
  MadeStage& stage = stages_.at(open.dataset);
  options.work = stage.work;
  {
    std::lock_guard lock(loop_.mutex);
    pass.stage_work = stage.work;
  }
  std::lock_guard lock(stage.mutex);
  if (!stage.plan) stage.plan = last_stage(plan, open.from.epoch, options, stopping);
  return stage.plan;
}

void FeedReader::pump(Pass& pass) {
  if (!peers_.empty() && decide(pass)) return pump_split(pass);
  const OpenPass open = pass.open;
  auto stream = open_stream(pass);
  if (!stream) return;
  {
    std::unique_lock lock(loop_.mutex);
    changed_.wait(lock, [&] { return pass.stopping || all_opened(pass); });
  }
  std::shared_ptr<arrow::Schema> schema;
  BlockCollector collected;
  int64_t end = open.from.window_first_row;
  while (wait_for_rows(pass, *stream, collected)) {
    if (!stream->ready()) {
      if (!send_block(pass, collected.take())) return;
      continue;
    }
    auto block = stream->next();
    bool in_window = block && block->window == open.from.window;
    if (!in_window && end < open.from.rows) {
      throw_bad_position(
          open.from, open.dataset,
          str("window ", open.from.window, " has the rows before row ", end, " only"));
    }
    if (!block) break;
    end = block->first_row + block->batch->num_rows();
    int64_t skip = open.from.rows - block->first_row;
    if (skip >= block->batch->num_rows()) continue;
    if (skip > 0) {
      block->batch = block->batch->Slice(skip);
      block->first_row += skip;
    }
    block->batch = without_shared_values(block->batch);
    if (!schema) send_schema(pass, *(schema = block->batch->schema()));
    block->batch = conform(block->batch, schema);
    if (!collected.takes(block->bytes) && !send_block(pass, collected.take())) return;
    collected.add(std::move(*block));
    if (collected.full() && !send_block(pass, collected.take())) return;
  }
  if (!collected.empty() && !send_block(pass, collected.take())) return;
  std::lock_guard lock(loop_.mutex);
  if (!pass.stopping) send_all(pass, EndOfPass{open.pass, end, stream->rows_decoded()});
}

// Waits until there are more rows, or until a worker must get the rows collected so far. False if
// no worker wants more.
bool FeedReader::wait_for_rows(const Pass& pass, const Stream& stream,
                               const BlockCollector& collected) {
  std::unique_lock lock(loop_.mutex);
  changed_.wait(lock, [&] {
    return pass.stopping || stream.ready() || (!collected.empty() && is_wanted(pass, collected));
  });
  return !pass.stopping;
}

// Whether a worker that waits for rows can go on with the collected ones.
bool FeedReader::is_wanted(const Pass& pass, const BlockCollector& collected) {
  for (size_t rank = 0; rank < pass.wanted.size(); ++rank) {
    if (!pass.closed[rank] && pass.wanted[rank] > collected.first_row() &&
        pass.wanted[rank] <= collected.end_row()) {
      return true;
    }
  }
  return false;
}

void FeedReader::send_schema(const Pass& pass, const arrow::Schema& schema) {
  auto bytes = check(arrow::ipc::SerializeSchema(schema), "serialising a schema");
  std::lock_guard lock(loop_.mutex);
  send_all(pass, PassSchema{pass.open.pass, bytes->ToString()});
}

// Sends the rows in parts of a few megabytes, unless a part is no smaller than `whole`, the block
// it comes from: then a few rows, or something that they share, are that large. False if no worker
// wants more.
bool FeedReader::send_block(Pass& pass, const BlockRows& rows, int64_t whole) {
  if (!rows.batch) return send_without_rows(pass, rows);
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.alignment = 64;
  int64_t size = 0, count = rows.batch->num_rows();
  check(arrow::ipc::GetRecordBatchSize(*rows.batch, options, &size), "measuring a block");
  bool has_all = count == rows.end_row - rows.first_row;
  if (size > kMaxBlockBytes && count > 1 && size < whole / 4 * 3 && has_all) {
    int64_t parts = std::min(size / kMaxBlockBytes + 1, count);
    for (int64_t i = 0; i < parts; ++i) {
      auto part = slice(rows, count * i / parts, count * (i + 1) / parts);
      if (!send_block(pass, part, size)) return false;
    }
    return true;
  }
  BorrowedSegment borrowed(*this, take_segment(pass, size, rows.first_row));
  if (!borrowed.segment) return false;
  auto buffer = std::make_shared<arrow::MutableBuffer>(borrowed.segment->region.data(), size);
  arrow::io::FixedSizeBufferWriter writer(buffer);
  int32_t metadata_length = 0;
  int64_t body_length = 0;
  check(arrow::ipc::WriteRecordBatch(*rows.batch, 0, &writer, &metadata_length, &body_length,
                                     options),
        "writing a block into shared memory");

  std::lock_guard lock(loop_.mutex);
  NewBlock message{pass.open.pass,
                   next_block_++,
                   borrowed.segment->id,
                   static_cast<uint64_t>(size),
                   rows.first_row,
                   rows.end_row - rows.first_row,
                   rows.windows,
                   rows.known,
                   rows.total};
  std::set<size_t> holders;
  for (size_t rank = 0; rank < channels_.size(); ++rank) {
    if (open_[rank] && !pass.closed[rank]) holders.insert(rank);
  }
  if (holders.empty()) return false;
  Block& block = blocks_[message.block];
  block.segment = std::move(borrowed.segment);
  block.holders = std::move(holders);
  announce(block, message);
  return true;
}

bool FeedReader::send_without_rows(const Pass& pass, const BlockRows& rows) {
  std::lock_guard lock(loop_.mutex);
  if (pass.stopping) return false;
  NewBlock message;
  message.pass = pass.open.pass;
  message.first_row = rows.first_row;
  message.rows = rows.end_row - rows.first_row;
  message.windows = rows.windows;
  message.known = rows.known;
  message.total = rows.total;
  send_all(pass, message);
  return true;
}

// The block is in blocks_ already, so that a worker that closes meanwhile does not hold it any
// more. A worker that was not told of it because of a failure does not hold it, either.
void FeedReader::announce(const Block& block, const NewBlock& message) {
  Segment& segment = *block.segment;  // it stays valid, if only in the pool
  const std::set<size_t> holders = block.holders;
  auto rank = holders.begin();
  try {
    for (; rank != holders.end(); ++rank) {
      if (!open_[*rank]) continue;
      if (!segment.known[*rank]) {
        send(*rank,
             NewSegment{segment.id, segment.region.size(), SharedFd(segment.region.duplicate())});
        segment.known[*rank] = true;
      }
      send(*rank, message);
    }
  } catch (...) {
    for (; rank != holders.end(); ++rank) release(message.block, *rank);
    throw;
  }
}

// Waits until the budget allows a segment, or until no worker can do anything before it has the row
// `first_row`: then the row must be sent, however much is held. None if no worker wants more.
std::unique_ptr<Segment> FeedReader::take_segment(const Pass& pass, int64_t size,
                                                  int64_t first_row) {
  std::unique_lock lock(loop_.mutex);
  auto all_want = [&] {
    for (size_t rank = 0; rank < channels_.size(); ++rank) {
      if (!pass.closed[rank] && pass.wanted[rank] <= first_row) return false;
    }
    return true;
  };
  changed_.wait(
      lock, [&] { return pass.stopping || in_use_ + size <= options_.byte_budget || all_want(); });
  if (pass.stopping) return nullptr;
  auto segment = segments_.take(size);
  if (!segment) {
    for (const auto& dropped : segments_.shrink(options_.byte_budget - in_use_ - size)) {
      for (size_t rank = 0; rank < channels_.size(); ++rank) {
        if (open_[rank] && dropped->known[rank]) send(rank, DropSegment{dropped->id});
      }
    }
    lock.unlock();
    segment = segments_.make(size);
    lock.lock();
  }
  in_use_ += segment->size();
  return segment;
}

}  // namespace manta::data
