#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/data/feed_reader_internal.h"

namespace manta::data {

std::string describe(const OpenPass& open) {
  return str("epoch ", open.from.epoch, " of '", open.dataset, "' from row ", open.from.rows,
             " in steps of ", open.global_batch, " rows, a rest of ", open.smallest_rest,
             " being a step", open.drop_last ? ", drop_last" : "");
}

bool same(const OpenPass& a, const OpenPass& b) {
  return a.dataset == b.dataset && a.from == b.from && a.global_batch == b.global_batch &&
         a.smallest_rest == b.smallest_rest && a.drop_last == b.drop_last;
}

namespace {

bool all(const std::vector<bool>& ranks) {
  return std::find(ranks.begin(), ranks.end(), false) == ranks.end();
}

}  // namespace

FeedReader::FeedReader(const std::map<std::string, std::shared_ptr<const Plan>>& plans,
                       std::vector<UniqueFd> workers, const FeedOptions& options, FeedPeers peers)
    : options_(options),
      plans_(plans),
      decoded_budget_(std::make_shared<ByteBudget>(options.keep_decoded)),
      node_(peers.node),
      hosts_(std::move(peers.hosts)),
      node_ranks_(std::move(peers.node_ranks)),
      always_split_(peers.always),
      tell_(std::move(peers.tell)),
      measure_(std::move(peers.measure)),
      bytes_per_second_(peers.bytes_per_second),
      segments_(workers.size()) {
  for (auto& transport : peers.connections) {
    Peer& peer = peers_.emplace_back();
    if (transport)
      peer.channel = std::make_shared<AsyncChannel>(loop_, std::move(transport), kMaxFrameBody);
  }
  for (auto& fd : workers) {
    channels_.push_back(std::make_shared<AsyncChannel>(loop_, std::move(fd), kMaxFrameBody));
  }
  open_.assign(channels_.size(), true);
  for (const auto& [name, plan] : plans_) {
    stages_.try_emplace(name);
    for (const auto& operation : plan->operations) {
      if (auto helpers = operation->helpers()) helpers_.push_back(std::move(helpers));
    }
  }
}

FeedReader::~FeedReader() {
  std::map<uint64_t, std::unique_ptr<Pass>> passes;
  {
    std::lock_guard lock(loop_.mutex);
    ending_ = true;
    for (auto& [number, pass] : passes_) pass->stopping = true;
    changed_.notify_all();
    passes.swap(passes_);
  }
  passes.clear();  // joins the passes' threads, which need the lock
  std::lock_guard lock(loop_.mutex);
  for (auto& channel : channels_) channel->close();
  for (auto& peer : peers_) {
    if (peer.channel) peer.channel->flush_and_close();
  }
}

void FeedReader::run() {
  if (channels_.empty()) return;
  {
    std::lock_guard lock(loop_.mutex);
    for (size_t rank = 0; rank < channels_.size(); ++rank) {
      channels_[rank]->start([this, rank](Frame& frame) { read(rank, frame); },
                             [this, rank](const std::string& why) { on_closed(rank, why); });
    }
    start_peers();
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
  stop_if_over();
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
  auto told = plans_told_.extract(open.pass);
  if (!told.empty()) pass->plan = std::move(told.mapped());
  if (auto failed = early_.failure(open.pass)) return fail(*pass, failed->kind, failed->message);
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
  if (found == passes_.end()) return;
  found->second->wanted[rank] = message.until;
  tell_wants(*found->second);
}

void FeedReader::on(size_t rank, const ClosePass& message) {
  auto found = passes_.find(message.pass);
  if (found == passes_.end()) return;
  close(*found->second, rank);
  if (is_over(*found->second)) {
    forget(*found->second);
    passes_.erase(found);
  }
}

void FeedReader::close(Pass& pass, size_t rank) {
  if (pass.closed[rank]) return;
  pass.closed[rank] = true;
  tell_wants(pass);
  if (!all(pass.closed)) return;
  pass.stopping = true;
  if (!pass.exchange) return;
  pass.exchange->left(node_);
  send_peers(LeavePass{pass.open.pass});
}

bool FeedReader::is_over(const Pass& pass) const {
  bool serves = pass.exchange && !pass.failed && !pass.exchange->over();
  return pass.done && !pass.decoding && all(pass.closed) && !serves;
}

void FeedReader::release(uint64_t number, size_t rank) {
  auto found = blocks_.find(number);
  if (found == blocks_.end() || found->second.holders.erase(rank) == 0) return;
  if (found->second.holders.empty()) {
    give_back(std::move(found->second.segment));
    blocks_.erase(found);
  }
}

// Called now and then: ends passes that are over, and those that wait for a worker that does not
// come.
void FeedReader::look_after_passes() {
  std::erase_if(passes_, [this](const auto& each) {
    if (!is_over(*each.second)) return false;
    forget(*each.second);
    return true;
  });
  stop_if_over();
  for (auto& [number, pass] : passes_) {
    look_for_missing_peers(*pass);
    tell_work(*pass);
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

// Workers wait for rows with a deadline, which a sort of many rows before the first one may exceed.
void FeedReader::tell_work(Pass& pass) {
  int64_t done = pass.work->done() + (pass.stage_work ? pass.stage_work->done() : 0);
  if (done == pass.work_told || pass.failed || pass.stopping) return;
  pass.work_told = done;
  send_all(pass, AtWork{pass.open.pass});
}

bool FeedReader::all_opened(const Pass& pass) {
  for (size_t rank = 0; rank < pass.opened.size(); ++rank) {
    if (!pass.opened[rank] && !pass.closed[rank]) return false;
  }
  return true;
}

// Also passes on the failure of another node: that node may have gone before a third one hears of
// it.
void FeedReader::fail(Pass& pass, ErrorKind kind, const std::string& why) {
  if (pass.failed) return;
  pass.failed = PassFailed{pass.open.pass, kind, why};
  pass.stopping = true;
  drop_answers(pass.open.pass);
  bool alone = pass.plan && !pass.plan->split;
  if (!alone) send_peers(*pass.failed);
  send_all(pass, *pass.failed);
  changed_.notify_all();
}

void FeedReader::give_back(std::unique_ptr<Segment> segment) {
  in_use_ -= segment->size();
  segments_.put(std::move(segment));
}

void serve_feed(const std::map<std::string, std::shared_ptr<const Plan>>& plans,
                std::vector<UniqueFd> workers, const FeedOptions& options, FeedPeers peers) {
  FeedReader(plans, std::move(workers), options, std::move(peers)).run();
}

}  // namespace manta::data
