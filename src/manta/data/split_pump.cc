// The threads of a pass whose windows may be split between hosts.

#include <arrow/record_batch.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/data/feed_reader_internal.h"
#include "manta/data/pipeline_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/stop_check_internal.h"

namespace manta::data {
namespace {

// A connection is measured by so many bytes at a time, so often, all within this time.
constexpr size_t kProbeBytes = 1 << 20;
constexpr int kProbes = 3;
constexpr std::chrono::seconds kProbeDeadline{5};

int64_t count_windows(const std::shared_ptr<const Plan>& plan, int64_t epoch) {
  return static_cast<int64_t>(Pipeline(plan).windows(epoch).size());
}

}  // namespace

bool FeedReader::decide(Pass& pass) {
  const OpenPass open = pass.open;
  check_position(open.from, open.dataset);
  if (node_ == 0) {
    PassPlan plan{open, choose(pass).split, 0};
    if (plan.split) plan.windows = count_windows(plans_.at(open.dataset), open.from.epoch);
    std::lock_guard lock(loop_.mutex);
    if (pass.failed || ending_) return false;
    pass.plan = plan;
    send_peers(plan);
    return plan.split;
  }
  std::unique_lock lock(loop_.mutex);
  changed_.wait(lock, [&] { return pass.failed || pass.plan || ending_ || !peers_[0].channel; });
  if (pass.failed || ending_) return false;
  if (!pass.plan) {  // nobody is left on the first node
    pass.plan = PassPlan{open, false, 0};
  }
  if (same(pass.plan->open, open)) return pass.plan->split;
  throw Error(ErrorKind::kInvalidArgument,
              str("workers must iterate over the same data in the same way: those of host ",
                  hosts_[static_cast<size_t>(node_)], " asked for ", describe(open),
                  " while those of host ", hosts_[0], " asked for ", describe(pass.plan->open)));
}

ReadingChoice FeedReader::choose(const Pass& pass) {
  const OpenPass& open = pass.open;
  {
    std::lock_guard lock(loop_.mutex);
    for (size_t node = 1; node < peers_.size(); ++node) {
      if (!peers_[node].channel) return {false, "the workers of a host have ended"};
    }
  }
  std::lock_guard lock(choices_mutex_);
  auto known = choices_.find(open.dataset);
  if (known != choices_.end()) return known->second;
  const auto& plan = plans_.at(open.dataset);
  std::string why_not = why_not_split(*plan);
  if (why_not.empty() && !always_split_ && keeps_results(open.dataset)) {
    // Asked again for each epoch: the rows may turn out to be too large.
    if (tell_ && told_of_kept_.insert(open.dataset).second) {
      tell_(str(
          "data set '", open.dataset, "': each of ", peers_.size(),
          " hosts reads all of it: ", "it is so small that epochs after the first read nothing"));
    }
    return {};
  }
  bool is_measured = why_not.empty() && !always_split_;
  ReadingChoice choice{why_not.empty(),
                       why_not.empty() ? "the run's split_reading says so" : why_not};
  if (is_measured) {
    auto measured = measure_(plan, open.from);
    choice = choose_reading(measured,
                            {static_cast<int>(peers_.size()), pass.threads, bytes_per_second()});
  }
  // Of the rest of an epoch few windows may be left, which says nothing about the epochs after it.
  if (!is_measured || open.from.window == 0) choices_[open.dataset] = choice;
  if (tell_) {
    tell_(str("data set '", open.dataset, "': ",
              choice.split ? str("its windows are split between ", peers_.size(), " hosts: ")
                           : str("each of ", peers_.size(), " hosts reads all of it: "),
              choice.why));
  }
  return choice;
}

bool FeedReader::keeps_results(const std::string& dataset) {
  auto decoded = decoded_rows(dataset);
  return decoded && Pipeline(plans_.at(dataset), nullptr, nullptr, decoded).keeps_results();
}

// Between the first two nodes. The best of a few probes: a new connection sends slowly at first,
// and the other end may be busy with its own start.
double FeedReader::bytes_per_second() {
  if (bytes_per_second_) return *bytes_per_second_;
  Deadline deadline = Deadline::after(kProbeDeadline);
  std::chrono::duration<double> best{0};
  for (int i = 0; i < kProbes; ++i) {
    auto begin = Clock::now();
    bool answers = answers_probe("", deadline);
    auto between = Clock::now();
    answers = answers && answers_probe(std::string(kProbeBytes, 'x'), deadline);
    auto end = Clock::now();
    if (!answers) break;
    std::chrono::duration<double> took =
        (end - between) - std::min(between - begin, (end - between) / 2);
    best = i == 0 ? took : std::min(best, took);
    bytes_per_second_ = static_cast<double>(kProbeBytes) / std::max(best.count(), 1e-6);
  }
  return bytes_per_second_.value_or(0);
}

bool FeedReader::answers_probe(const std::string& bytes, Deadline deadline) {
  std::unique_lock lock(loop_.mutex);
  uint64_t number = ++probe_sent_;
  send_peer(1, Probe{number, bytes});
  changed_.wait_until(lock, deadline.at(),
                      [&] { return probe_seen_ >= number || ending_ || !peers_[1].channel; });
  return probe_seen_ >= number;
}

void FeedReader::run_decoder(Pass& pass) {
  StopCheck check([this, &pass] {
    std::lock_guard lock(loop_.mutex);
    return pass.failed || ending_;
  });
  try {
    decode(pass);
  } catch (const Error& error) {
    std::lock_guard lock(loop_.mutex);
    fail(pass, error.kind(), error.what());
  } catch (const std::exception& error) {
    std::lock_guard lock(loop_.mutex);
    fail(pass, ErrorKind::kUserCode, error.what());
  }
  std::lock_guard lock(loop_.mutex);
  pass.decoding = false;
}

// This node's windows, for all nodes, until all have left.
void FeedReader::decode(Pass& pass) {
  auto stream = open_stream(pass, true);
  std::shared_ptr<arrow::Schema> schema;
  auto ends = [&] { return pass.failed || ending_ || pass.exchange->over(); };
  while (true) {
    {
      std::unique_lock lock(loop_.mutex);
      changed_.wait(lock, [&] { return ends() || pass.exchange->may_decode(); });
      if (ends()) return;
    }
    auto window = stream->next_window();
    if (!window) return;
    pass.rows_decoded = stream->rows_decoded();
    for (auto& batch : window->batches) {
      batch = without_shared_values(batch);
      if (!schema) schema = batch->schema();
      batch = conform(batch, schema);
    }
    std::lock_guard lock(loop_.mutex);
    if (ends()) return;
    send_peers(
        pass.exchange->add_window(window->window, std::move(window->batches), window->bytes));
    advance(pass);
  }
}

void FeedReader::pump_split(Pass& pass) {
  const OpenPass open = pass.open;
  int64_t windows = count_windows(plans_.at(open.dataset), open.from.epoch);
  {
    std::unique_lock lock(loop_.mutex);
    if (pass.failed || ending_) return;
    if (windows != pass.plan->windows) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("data set '", open.dataset, "' has ", windows, " windows on host ",
                      hosts_[static_cast<size_t>(node_)], ", but ", pass.plan->windows, " on host ",
                      hosts_[0], ": its files must be the same on all hosts"));
    }
    join_exchange(pass, windows);
    pass.decoding = true;
    try {
      pass.decoder = start_thread("a thread that decodes for " + describe(open),
                                  [this, &pass] { run_decoder(pass); });
    } catch (...) {
      pass.decoding = false;
      throw;
    }
    changed_.wait(lock, [&] { return pass.stopping || all_opened(pass); });
    if (pass.stopping) return;
    send_all(pass, PassRanks{open.pass, ranks_of(node_)});
  }
  std::shared_ptr<arrow::Schema> schema;
  BlockCollector collected;
  int64_t total = NodeRows::kUnknown;
  while (true) {
    std::optional<WindowExchange::NeededRows> needed;
    {
      std::unique_lock lock(loop_.mutex);
      changed_.wait(lock, [&] {
        return pass.stopping || pass.exchange->ready() || pass.exchange->at_end() ||
               is_wanted_split(pass, collected);
      });
      if (pass.stopping) return;
      if (pass.exchange->ready()) {
        needed = pass.exchange->take();
        advance(pass);
      } else if (pass.exchange->at_end()) {
        break;
      }
    }
    if (!needed) {
      if (!send_collected(pass, collected, total)) return;
      continue;
    }
    for (auto& batch : needed->batches) {
      if (!schema) send_schema(pass, *(schema = batch->schema()));
      if (!have_same_columns(*schema, *batch->schema())) {
        throw Error(ErrorKind::kUserCode,
                    str("data set '", open.dataset, "' has different columns: {",
                        describe_columns(*schema), "} at first, and {",
                        describe_columns(*batch->schema()), "} in window ", needed->window,
                        ", which another host may have read; return the same names and types from "
                        "every call"));
      }
      batch = conform(batch, schema);
    }
    if (!collected.takes(needed->bytes) && !send_collected(pass, collected, total)) return;
    total = needed->total;
    collected.add_some(
        {nullptr, needed->bytes, needed->first_row, needed->window, needed->window_first_row},
        needed->end_row, std::move(needed->batches));
    if (collected.full() && !send_collected(pass, collected, total)) return;
  }
  if (!collected.empty() && !send_collected(pass, collected, total)) return;
  std::lock_guard lock(loop_.mutex);
  if (pass.stopping) return;
  pass.delivered = true;
  send_all(pass, EndOfPass{open.pass, std::max(pass.exchange->known(), open.from.rows),
                           pass.rows_decoded});
}

bool FeedReader::send_collected(Pass& pass, BlockCollector& collected, int64_t total) {
  BlockRows rows = collected.take();
  rows.total = total;
  {
    std::lock_guard lock(loop_.mutex);
    rows.known = pass.exchange->known();
  }
  return send_block(pass, rows);
}

// Whether some worker waits for just these rows. It says how many it has to know of, which is more
// than its step has.
bool FeedReader::is_wanted_split(const Pass& pass, const BlockCollector& collected) {
  if (collected.empty()) return false;
  for (size_t rank = 0; rank < pass.wanted.size(); ++rank) {
    int64_t needed = pass.exchange->own().decided(pass.wanted[rank]);
    if (!pass.closed[rank] && needed > collected.first_row() && needed <= collected.end_row())
      return true;
  }
  return false;
}

}  // namespace manta::data
