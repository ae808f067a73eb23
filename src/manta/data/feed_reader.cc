#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log.h"
#include "manta/base/start_thread_internal.h"
#include "manta/data/feed_reader_internal.h"

namespace manta::data {
namespace {

std::string describe(const OpenPass& open) {
  return str("epoch ", open.from.epoch, " of '", open.dataset, "' from row ", open.from.rows,
             " in steps of ", open.global_batch, " rows, a rest of ", open.smallest_rest,
             " being a step", open.drop_last ? ", drop_last" : "");
}

bool same(const OpenPass& a, const OpenPass& b) {
  return a.dataset == b.dataset && a.from == b.from && a.global_batch == b.global_batch &&
         a.smallest_rest == b.smallest_rest && a.drop_last == b.drop_last;
}

bool all(const std::vector<bool>& ranks) {
  return std::find(ranks.begin(), ranks.end(), false) == ranks.end();
}

}  // namespace

FeedReader::FeedReader(const std::map<std::string, std::shared_ptr<const Plan>>& plans,
                       std::vector<UniqueFd> workers, const FeedOptions& options)
    : options_(options), plans_(plans), segments_(workers.size()) {
  for (auto& fd : workers) {
    channels_.push_back(std::make_shared<AsyncChannel>(loop_, std::move(fd), kMaxFrameBody));
  }
  open_.assign(channels_.size(), true);
  for (const auto& [name, plan] : plans_) {
    for (const auto& operation : plan->operations) {
      if (auto helpers = operation->helpers()) helpers_.push_back(std::move(helpers));
    }
  }
}

FeedReader::~FeedReader() {
  std::map<uint64_t, std::unique_ptr<Pass>> passes;
  {
    std::lock_guard lock(loop_.mutex);
    for (auto& [number, pass] : passes_) pass->stopping = true;
    changed_.notify_all();
    passes.swap(passes_);
  }
  passes.clear();  // joins their threads, which need the lock
  std::lock_guard lock(loop_.mutex);
  for (auto& channel : channels_) channel->close();
}

void FeedReader::run() {
  if (channels_.empty()) return;
  {
    std::lock_guard lock(loop_.mutex);
    for (size_t rank = 0; rank < channels_.size(); ++rank) {
      channels_[rank]->start([this, rank](Frame& frame) { read(rank, frame); },
                             [this, rank](const std::string& why) { on_closed(rank, why); });
    }
    look_after_passes();
  }
  loop_.context.run();
}

void FeedReader::read(size_t rank, Frame& frame) {
  auto message = decode_message<ToReader>(frame);
  std::visit([&](auto& each) { on(rank, each); }, message);
  changed_.notify_all();
}

void FeedReader::on_closed(size_t rank, const std::string& why) {
  if (!why.empty()) log_warning(str("the connection to rank ", rank, " broke: ", why));
  open_[rank] = false;
  for (auto& [number, pass] : passes_) close(*pass, rank);
  std::vector<uint64_t> held;
  for (auto& [number, block] : blocks_) {
    if (block.holders.contains(rank)) held.push_back(number);
  }
  for (uint64_t number : held) release(number, rank);
  changed_.notify_all();
  if (std::find(open_.begin(), open_.end(), true) == open_.end()) loop_.context.stop();
}

void FeedReader::on(size_t rank, const OpenPass& message) {
  auto& pass = passes_[message.pass];
  if (!pass) begin(pass, message);
  if (!pass->failed && !same(pass->open, message)) {
    size_t other = 0;
    while (!pass->opened[other]) ++other;
    fail(*pass, ErrorKind::kInvalidArgument,
         str("workers must iterate over the same data in the same way: rank ", rank, " asked for ",
             describe(message), " while rank ", other, " asked for ", describe(pass->open)));
  }
  pass->opened[rank] = true;
  if (pass->failed) send(rank, *pass->failed);
}

void FeedReader::begin(std::unique_ptr<Pass>& pass, const OpenPass& open) {
  pass = std::make_unique<Pass>();
  pass->open = open;
  pass->opened.assign(channels_.size(), false);
  pass->wanted.assign(channels_.size(), 0);
  for (bool each : open_) pass->closed.push_back(!each);
  if (!plans_.contains(open.dataset)) {
    return fail(*pass, ErrorKind::kNotFound, str("no data set is named '", open.dataset, "'"));
  }
  try {  // It reads ahead at once, and sends when all workers are there.
    pass->done = false;
    pass->thread =
        start_thread("a thread for " + describe(open), [this, &pass = *pass] { run_pump(pass); });
  } catch (const Error& error) {
    pass->done = true;
    fail(*pass, error.kind(), error.what());
  }
}

void FeedReader::on(size_t rank, const ReleaseBlock& message) { release(message.block, rank); }

void FeedReader::on(size_t rank, const WantRows& message) {
  auto found = passes_.find(message.pass);
  if (found != passes_.end()) found->second->wanted[rank] = message.until;
}

void FeedReader::on(size_t rank, const ClosePass& message) {
  auto found = passes_.find(message.pass);
  if (found == passes_.end()) return;
  close(*found->second, rank);
  if (found->second->done && all(found->second->closed)) passes_.erase(found);
}

void FeedReader::close(Pass& pass, size_t rank) {
  pass.closed[rank] = true;
  if (all(pass.closed)) pass.stopping = true;
}

void FeedReader::release(uint64_t number, size_t rank) {
  auto found = blocks_.find(number);
  if (found == blocks_.end() || found->second.holders.erase(rank) == 0) return;
  if (found->second.holders.empty()) {
    give_back(std::move(found->second.segment));
    blocks_.erase(found);
  }
}

// Passes that are over, and those that wait for somebody who does not come; every now and then.
void FeedReader::look_after_passes() {
  std::erase_if(passes_,
                [](const auto& each) { return each.second->done && all(each.second->closed); });
  for (auto& [number, pass] : passes_) {
    if (pass->failed || pass->stopping || all_opened(*pass) ||
        Clock::now() - pass->since < options_.timeout) {
      continue;
    }
    std::string missing;
    for (size_t rank = 0; rank < pass->opened.size(); ++rank) {
      if (!pass->opened[rank]) missing += str(missing.empty() ? "" : ", ", rank);
    }
    fail(*pass, ErrorKind::kTimeout,
         str("rank ", missing, " did not begin ", describe(pass->open), " within ",
             options_.timeout.count(), " ms: every worker must iterate over a data set"));
  }
  auto interval = std::clamp(options_.timeout / 20, std::chrono::milliseconds(1),
                             std::chrono::milliseconds(1000));
  timer_ = loop_.after(interval, [this] { look_after_passes(); });
}

bool FeedReader::all_opened(const Pass& pass) {
  for (size_t rank = 0; rank < pass.opened.size(); ++rank) {
    if (!pass.opened[rank] && !pass.closed[rank]) return false;
  }
  return true;
}

void FeedReader::fail(Pass& pass, ErrorKind kind, const std::string& why) {
  if (pass.failed) return;
  pass.failed = PassFailed{pass.open.pass, kind, why};
  pass.stopping = true;
  send_all(pass, *pass.failed);
  changed_.notify_all();
}

void FeedReader::give_back(std::unique_ptr<Segment> segment) {
  in_use_ -= segment->size();
  segments_.put(std::move(segment));
}

void serve_feed(const std::map<std::string, std::shared_ptr<const Plan>>& plans,
                std::vector<UniqueFd> workers, const FeedOptions& options) {
  FeedReader(plans, std::move(workers), options).run();
}

}  // namespace manta::data
