// What a data reader hears from those of other nodes, and tells them: the I/O around
// WindowExchange.

#include <arrow/record_batch.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/exchange_rows_internal.h"
#include "manta/data/feed_reader_internal.h"

namespace manta::data {
namespace {

// Of rows, in one message.
constexpr size_t kPartBytes = 4 << 20;
// Of one answer. It has about ExchangeOptions::ask_bytes, unless single rows are larger.
constexpr size_t kMaxAnswerBytes = size_t{4} << 30;

uint64_t pass_number_of(const JoinPass& message) { return message.open.pass; }
template <class Message>
uint64_t pass_number_of(const Message& message) {
  return message.pass;
}

}  // namespace

void FeedReader::start_peers() {
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i].channel) continue;
    int node = static_cast<int>(i);
    peers_[i].channel->start([this, node](Frame& frame) { read_peer(node, frame); },
                             [this, node](const std::string& why) { on_peer_closed(node, why); });
  }
}

void FeedReader::read_peer(int node, Frame& frame) {
  auto message = decode_message<BetweenReaders>(frame);
  std::visit([&](auto& each) { on_peer(node, each); }, message);
  changed_.notify_all();
}

// A reader ends when its workers have ended and nobody needs its windows.
void FeedReader::on_peer_closed(int node, const std::string& why) {
  Peer& peer = peers_[static_cast<size_t>(node)];
  peer.channel.reset();
  peer.replies.clear();
  for (auto& [number, pass] : passes_) {
    if (!pass->exchange || pass->failed) continue;
    if (pass->delivered || pass->stopping) {
      pass->exchange->left(node);
      continue;
    }
    fail(*pass, ErrorKind::kWorkerLost,
         str("the data reader of host ", hosts_[static_cast<size_t>(node)], " has gone",
             why.empty() ? "" : ": " + why));
  }
  changed_.notify_all();
  stop_if_over();
}

void FeedReader::stop_if_over() {
  if (std::find(open_.begin(), open_.end(), true) != open_.end()) return;
  bool serves = std::any_of(passes_.begin(), passes_.end(), [](const auto& each) {
    const Pass& pass = *each.second;
    return pass.exchange && !pass.failed && !pass.exchange->over();
  });
  if (!serves) loop_.context.stop();
}

void FeedReader::on_peer(int node, Probe& message) { send_peer(node, ProbeSeen{message.number}); }

void FeedReader::on_peer(int, ProbeSeen& message) { probe_seen_ = message.number; }

void FeedReader::on_peer(int node, PassPlan& message) {
  if (node != 0) throw Error(ErrorKind::kCorrupt, "it decides how data is read, which it may not");
  auto found = passes_.find(message.open.pass);
  if (found != passes_.end()) {
    found->second->plan = message;
  } else if (!early_.is_over(message.open.pass)) {
    plans_told_[message.open.pass] = message;
  }
}

template <class Message>
void FeedReader::on_peer(int node, Message& message) {
  uint64_t number = pass_number_of(message);
  if (early_.is_over(number)) return;
  auto found = passes_.find(number);
  if (found != passes_.end() && found->second->failed) return;
  bool is_failure = std::is_same_v<Message, PassFailed>;
  if (found == passes_.end() || (!found->second->exchange && !is_failure)) {
    if constexpr (std::is_constructible_v<EarlyMessages::Message, Message>) {
      return early_.keep(number, node, std::move(message));
    } else {
      throw Error(ErrorKind::kCorrupt, "it answers what nobody here has said");
    }
  }
  Pass& pass = *found->second;
  try {
    on_pass(node, pass, message);
    if (pass.exchange) advance(pass);
  } catch (const Error& error) {
    fail(pass, error.kind(), error.what());
  }
  stop_if_over();
}

void FeedReader::on_pass(int node, Pass& pass, const JoinPass& message) {
  pass.heard[static_cast<size_t>(node)] = true;
  if (same(pass.open, message.open)) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("workers must iterate over the same data in the same way: those of host ",
                  hosts_[static_cast<size_t>(node)], " asked for ", describe(message.open),
                  " while those of host ", hosts_[static_cast<size_t>(node_)], " asked for ",
                  describe(pass.open)));
}

void FeedReader::on_pass(int node, Pass& pass, const WindowRows& message) {
  pass.exchange->counted(node, message);
}

void FeedReader::on_pass(int node, Pass& pass, const WantKnown& message) {
  pass.exchange->wants(node, message.until);
}

void FeedReader::on_pass(int node, Pass& pass, const AskRows& message) {
  Peer& peer = peers_[static_cast<size_t>(node)];
  peer.replies.push_back({message.pass, message.request, pass.exchange->rows_for(node, message)});
  send_replies(node);
}

// One at a time: what a slow peer asks for is not copied before it can be sent.
void FeedReader::send_replies(int node) {
  Peer& peer = peers_[static_cast<size_t>(node)];
  if (peer.sending || peer.replies.empty() || !peer.channel) return;
  Peer::Reply reply = std::move(peer.replies.front());
  peer.replies.pop_front();
  try {
    send_reply(node, reply);
  } catch (const Error& error) {
    auto found = passes_.find(reply.pass);
    if (found != passes_.end()) fail(*found->second, error.kind(), error.what());
    if (!peer.channel) return;
  }
  peer.sending = true;
  peer.channel->when_sent([this, node] {
    peers_[static_cast<size_t>(node)].sending = false;
    send_replies(node);
  });
}

void FeedReader::send_reply(int node, const Peer::Reply& reply) {
  Peer& peer = peers_[static_cast<size_t>(node)];
  std::string bytes = rows_to_bytes(reply.batches);
  OutBuffer& out = peer.channel->out_to_flush();
  if (peer.has_schema.insert(reply.pass).second) {
    std::string schema = schema_to_bytes(*reply.batches.front()->schema());
    encode_message<BetweenReaders>(out, RowsSchema{reply.pass, std::move(schema)});
  }
  for (size_t at = 0; at < bytes.size(); at += kPartBytes) {
    RowsPart part{reply.pass, reply.request, at + kPartBytes >= bytes.size(),
                  bytes.substr(at, kPartBytes)};
    encode_message<BetweenReaders>(out, part);
  }
}

void FeedReader::on_pass(int node, Pass& pass, RowsSchema& message) {
  peers_[static_cast<size_t>(node)].sent_schemas[pass.open.pass] =
      schema_from_bytes(std::move(message.schema));
}

void FeedReader::on_pass(int node, Pass& pass, RowsPart& message) {
  Peer& peer = peers_[static_cast<size_t>(node)];
  Peer::Answer& part = peer.part;
  if (part.pass != message.pass || part.request != message.request)
    part = {message.pass, message.request, {}};
  if (part.bytes.size() + message.bytes.size() > kMaxAnswerBytes) {
    throw Error(ErrorKind::kCorrupt,
                str("a data reader of another node sent more than ", kMaxAnswerBytes, " bytes"));
  }
  if (part.bytes.empty()) {
    part.bytes = std::move(message.bytes);
  } else {
    part.bytes += message.bytes;
  }
  if (!message.last) return;
  auto schema = peer.sent_schemas.find(pass.open.pass);
  if (schema == peer.sent_schemas.end())
    throw Error(ErrorKind::kCorrupt, "a data reader of another node sent rows without a schema");
  auto batch = rows_from_bytes(schema->second, std::exchange(part.bytes, {}));
  if (pass.exchange->wants_rows()) pass.exchange->arrived(node, message.request, {batch});
}

void FeedReader::on_pass(int node, Pass& pass, const PassedWindow& message) {
  pass.exchange->passed(node, message.window);
}

void FeedReader::on_pass(int node, Pass& pass, const LeavePass&) {
  pass.exchange->left(node);
  drop_replies(peers_[static_cast<size_t>(node)], pass.open.pass);
}

void FeedReader::on_pass(int, Pass& pass, const PassFailed& message) {
  fail(pass, message.kind, message.message);
}

// With the lock held, on the thread of the pass.
void FeedReader::join_exchange(Pass& pass, int64_t windows) {
  std::vector<std::vector<int32_t>> ranks;
  for (size_t node = 0; node < peers_.size(); ++node)
    ranks.push_back(ranks_of(static_cast<int>(node)));
  ExchangeOptions options;
  options.node = node_;
  options.nodes = static_cast<int>(peers_.size());
  options.hold_bytes = options_.read_ahead / 2;
  options.receive_bytes = options_.read_ahead / 4;
  pass.exchange = std::make_unique<WindowExchange>(pass.open, windows, std::move(ranks), options);
  pass.heard.assign(peers_.size(), false);
  pass.heard[static_cast<size_t>(node_)] = true;
  send_peers(JoinPass{pass.open});
  if (pass.stopping) {  // its workers have closed it already
    pass.exchange->left(node_);
    send_peers(LeavePass{pass.open.pass});
  }
  for (size_t node = 0; node < peers_.size(); ++node) {
    if (static_cast<int>(node) == node_ || peers_[node].channel) continue;
    throw Error(ErrorKind::kWorkerLost, str("the data reader of host ", hosts_[node], " has gone"));
  }
  for (auto& [node, message] : early_.take(pass.open.pass)) {
    std::visit([&, node = node](auto& each) { on_pass(node, pass, each); }, message);
  }
  tell_wants(pass);
  advance(pass);
}

std::vector<int32_t> FeedReader::ranks_of(int node) const {
  std::vector<int32_t> ranks;
  for (size_t rank = 0; rank < node_ranks_.size(); ++rank) {
    if (node_ranks_[rank] == node) ranks.push_back(static_cast<int32_t>(rank));
  }
  return ranks;
}

// What every worker of this node waits for, if it is not known to exist.
void FeedReader::tell_wants(Pass& pass) {
  if (!pass.exchange) return;
  int64_t until = INT64_MAX;
  for (size_t rank = 0; rank < pass.wanted.size(); ++rank) {
    if (!pass.closed[rank]) until = std::min(until, pass.wanted[rank]);
  }
  if (until == INT64_MAX) return;
  pass.exchange->wants(node_, until);
  if (until <= pass.exchange->known() || until <= pass.wanted_told) return;
  pass.wanted_told = until;
  send_peers(WantKnown{pass.open.pass, until});
}

void FeedReader::advance(Pass& pass) {
  for (const auto& [node, message] : pass.exchange->advance()) {
    std::visit([&, node = node](const auto& each) { send_peer(node, each); }, message);
  }
  changed_.notify_all();
}

// Answers to what a peer has asked, which it does not want any more.
void FeedReader::drop_replies(Peer& peer, uint64_t pass) {
  std::erase_if(peer.replies, [&](const Peer::Reply& each) { return each.pass == pass; });
}

// Those of a pass, in both directions.
void FeedReader::drop_answers(uint64_t pass) {
  for (Peer& peer : peers_) {
    drop_replies(peer, pass);
    if (peer.part.pass == pass) peer.part = {};
  }
}

// What is left of a pass that is over.
void FeedReader::forget(Pass& pass) {
  uint64_t number = pass.open.pass;
  early_.end(number);
  drop_answers(number);
  for (Peer& peer : peers_) {
    peer.has_schema.erase(number);
    peer.sent_schemas.erase(number);
  }
}

void FeedReader::look_for_missing_peers(Pass& pass) {
  if (peers_.empty() || pass.failed || pass.stopping ||
      Clock::now() - pass.since < options_.timeout) {
    return;
  }
  std::string missing;
  if (!pass.plan && node_ != 0) missing = hosts_[0];
  for (size_t node = 0; node < pass.heard.size(); ++node) {
    if (!pass.heard[node]) missing += str(missing.empty() ? "" : ", ", hosts_[node]);
  }
  if (missing.empty()) return;
  fail(pass, ErrorKind::kTimeout,
       str("no worker of host ", missing, " has begun ", describe(pass.open), " within ",
           options_.timeout.count(), " ms: every worker must iterate over a data set"));
}

}  // namespace manta::data
