#include "manta/data/shard.h"

#include <arrow/record_batch.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/piece_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/shard_internal.h"

namespace manta {
namespace data {
ShardPass::ShardPass(std::shared_ptr<ShardState> state, const ShardBatchOptions& options)
    : state_(std::move(state)),
      rule_(make_step_rule(options.batch_size, options.global_batch_size, options.drop_last,
                           state_->feed->world_size(), state_->name)),
      row_(state_->position.rows),
      known_(row_),
      delivered_(row_) {
  if (state_->iterating) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("data set '", state_->name, "' is being iterated over already: end that loop first"));
  }
  check_position(state_->position, state_->name);  // before anything is computed with it
  state_->epoch_rows = row_;
  state_->epoch = state_->position.epoch;
  OpenPass open;
  open.dataset = state_->name;
  open.from = state_->position;
  open.global_batch = rule_.global_batch;
  open.smallest_rest = rule_.smallest_rest;
  open.drop_last = rule_.drop_last;
  pass_ = std::make_unique<FeedClient::Pass>(state_->feed, std::move(open));
  state_->iterating = true;
  state_->pass_steps = 0;
  if (state_->watch) state_->pass = state_->watch->begin_pass();
  if (state_->on_pass) state_->on_pass(true, state_->epoch, row_);
}

ShardPass::~ShardPass() { finish(); }

void ShardPass::finish() {
  if (finished_) return;
  finished_ = true;
  state_->position = {state_->position.epoch + 1, 0, 0, 0};
  state_->iterating = false;
  state_->pass = -1;
  state_->current_step->forget(this);
  state_->rows_decoded = pass_->rows_decoded();
  blocks_.clear();
  pass_.reset();
  if (state_->on_pass) state_->on_pass(false, state_->epoch, row_);
}

void ShardPass::pull() {
  auto block = pass_->next(row_ + rows_to_look_at(rule_));
  if (!block) {
    ended_ = true;
    return;
  }
  known_ = std::max(known_, block->known);
  delivered_ = block->end_row;
  blocks_.push_back(std::move(*block));
}

bool ShardPass::next(StepSlice* slice) {
  if (finished_) return false;
  WaitWatch::Scope scope(
      state_->watch, Wait{Wait::kRows, state_->pass, state_->name.c_str(), state_->position.epoch});
  while (!ended_ && known_ - row_ < rows_to_look_at(rule_)) pull();
  auto step = next_step(rule_, row_, known_, ended_, state_->name);
  if (!step) {
    state_->epoch_total = known_;
    state_->rows_of_epoch = row_;
    finish();
    return false;
  }
  while (!ended_ && delivered_ < step->first_row + step->rows) pull();
  const FeedClient& feed = *state_->feed;
  Rows mine = slice_of(*step, feed.rank(), feed.world_size());
  slice->parts.clear();
  slice->first_row = mine.first_row;
  slice->rows = mine.rows;
  slice->step_rows = step->rows;
  row_ = step->first_row + step->rows;
  for (const auto& block : blocks_) {
    int64_t begin = std::max(mine.first_row, block.first_row);
    int64_t end = std::min(mine.first_row + mine.rows, block.end_row);
    if (begin < end) slice->parts.push_back({block.batch, block.place_of(begin), end - begin});
    if (block.first_row < row_) {  // after the loop: the window of the last row that is taken
      const auto& last = *std::prev(
          std::partition_point(block.windows.begin(), block.windows.end(),
                               [&](const WindowPart& part) { return part.first_row < row_; }));
      state_->position = {state_->position.epoch, row_, last.window, last.window_first_row};
    }
  }
  while (!blocks_.empty() && blocks_.front().end_row <= row_) blocks_.pop_front();
  state_->current_step->set(this, {*step, mine});
  state_->steps += 1;
  state_->pass_steps += 1;
  state_->rows += mine.rows;
  state_->epoch_rows = row_;
  return true;
}

std::shared_ptr<arrow::RecordBatch> to_batch(const StepSlice& slice) {
  Batches batches;
  for (const auto& part : slice.parts) {
    batches.push_back(part.batch->Slice(part.offset, part.rows));
  }
  return concatenate(batches);
}

}  // namespace data

ShardBatches::Iterator& ShardBatches::Iterator::operator++() {
  batch_.reset();
  data::StepSlice slice;
  if (pass_->next(&slice)) {
    batch_ = data::to_batch(slice);
  } else {
    pass_ = nullptr;
  }
  return *this;
}

const std::string& DataShard::name() const { return state_->name; }
int64_t DataShard::epoch() const { return state_->position.epoch; }

ShardEpochs DataShard::iter_epochs() const {
  if (state_->epochs == 0) {
    throw Error(ErrorKind::kInvalidArgument,
                str("data set '", state_->name,
                    "' does not say how many epochs it has: give the trainer dataset.repeat(), or "
                    "repeat(epochs), or call iter_epochs(epochs)"));
  }
  return ShardEpochs(state_, state_->epochs == data::kEndlessly ? INT64_MAX : state_->epochs);
}

ShardEpochs DataShard::iter_epochs(int64_t epochs) const {
  if (epochs < 0) {
    throw Error(ErrorKind::kInvalidArgument, str("iter_epochs of data set '", state_->name,
                                                 "' needs at least 0 epochs, not ", epochs));
  }
  return ShardEpochs(state_, epochs);
}

std::optional<ShardEpoch> ShardEpochs::next() {
  if (state_->iterating) {
    throw Error(ErrorKind::kInvalidArgument,
                str("epoch ", state_->position.epoch, " of data set '", state_->name,
                    "' is being iterated over: end that loop before the next epoch"));
  }
  if (last_ == state_->position.epoch) state_->position = {*last_ + 1, 0, 0, 0};
  if (state_->position.epoch >= end_) return std::nullopt;
  last_ = state_->position.epoch;
  return ShardEpoch(state_, *last_);
}

std::shared_ptr<data::ShardPass> ShardEpoch::begin_pass(const ShardBatchOptions& options) const {
  if (state_->position.epoch != number_) {
    throw Error(ErrorKind::kInvalidArgument,
                str("epoch ", number_, " of data set '", state_->name,
                    "' is over: an epoch can be read once; take the next one of iter_epochs()"));
  }
  return std::make_shared<data::ShardPass>(state_, options);
}

ShardBatches ShardEpoch::iter_batches(const ShardBatchOptions& options) const {
  return ShardBatches(begin_pass(options));
}

ShardBatches DataShard::iter_batches(const ShardBatchOptions& options) const {
  return ShardBatches(begin_pass(options));
}

std::shared_ptr<data::ShardPass> DataShard::begin_pass(const ShardBatchOptions& options) const {
  return std::make_shared<data::ShardPass>(state_, options);
}

std::shared_ptr<data::ShardPass> DataShard::begin_first_epoch(
    const ShardBatchOptions& options) const {
  state_->position = {};
  return begin_pass(options);
}

}  // namespace manta
