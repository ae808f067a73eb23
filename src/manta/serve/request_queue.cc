#include <algorithm>
#include <cmath>

#include "manta/serve/request_queue_internal.h"

namespace manta::serve {
namespace {

constexpr double kSmoothing = 0.1;
// Before this many batches, no request is refused because of the times measured so far: the first
// batches warm things up.
constexpr int kTrustedSamples = 10;

}  // namespace

std::optional<std::chrono::nanoseconds> RequestQueue::expected_wait() const {
  if (samples_ < kTrustedSamples || replicas_ == 0) return std::nullopt;
  double seconds = seconds_each_ * waiting_ / replicas_;
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, 1e6) * 1e9));
}

std::optional<RequestQueue::Refused> RequestQueue::admit(RequestId id, Clock::time_point deadline,
                                                         Clock::time_point now) {
  auto wait = expected_wait();
  auto retry_after =
      std::chrono::ceil<std::chrono::seconds>(wait.value_or(std::chrono::seconds(1)));
  retry_after = std::clamp(retry_after, std::chrono::seconds(1), std::chrono::seconds(60));
  if (waiting_ >= policy_.max_queued) return Refused{Refused::kFull, retry_after};
  if (wait && now + *wait > deadline) return Refused{Refused::kTooLate, retry_after};
  if (line_.size() > 2 * static_cast<size_t>(waiting_) + 64) {  // most of its requests have gone
    std::erase_if(line_, [&](RequestId each) { return !entries_.contains(each); });
  }
  entries_.emplace(id, Entry{now, deadline});
  deadlines_.emplace(deadline, id);
  line_.push_back(id);
  ++waiting_;
  return std::nullopt;
}

std::vector<RequestId> RequestQueue::take(Clock::time_point now) {
  std::vector<RequestId> batch;
  auto take_from = [&](std::deque<RequestId>& ids, size_t most) {
    while (!ids.empty() && batch.size() < most) {
      RequestId id = ids.front();
      ids.pop_front();
      auto found = entries_.find(id);
      if (found == entries_.end()) continue;
      Entry& entry = found->second;
      if (entry.deadline <= now) continue;  // `expire` returns it
      entry.begun = true;
      ++entry.attempts;
      --waiting_;
      batch.push_back(id);
    }
  };
  take_from(suspects_, 1);
  if (!batch.empty()) return batch;
  if (auto at = next_batch_at(); at && *at > now) return {};
  take_from(line_, static_cast<size_t>(policy_.max_batch));
  return batch;
}

std::optional<Clock::time_point> RequestQueue::next_batch_at() const {
  if (waiting_ == 0) return std::nullopt;
  if (policy_.max_delay.count() == 0 || !suspects_.empty() || waiting_ >= policy_.max_batch)
    return Clock::time_point::min();
  for (RequestId id : line_) {
    auto found = entries_.find(id);
    if (found != entries_.end()) return found->second.arrived + policy_.max_delay;
  }
  return std::nullopt;
}

void RequestQueue::erase(RequestId id, const Entry& entry) {
  deadlines_.erase({entry.deadline, id});
  entries_.erase(id);
}

void RequestQueue::answered(const std::vector<RequestId>& batch, std::chrono::nanoseconds took) {
  for (RequestId id : batch) {
    auto found = entries_.find(id);
    if (found != entries_.end()) erase(id, found->second);
  }
  if (batch.empty()) return;
  double each = std::chrono::duration<double>(took).count() / static_cast<double>(batch.size());
  seconds_each_ = samples_ == 0 ? each : seconds_each_ + kSmoothing * (each - seconds_each_);
  samples_ = std::min(samples_ + 1, kTrustedSamples);
}

std::vector<RequestId> RequestQueue::lost(const std::vector<RequestId>& batch) {
  std::vector<RequestId> failed;
  for (RequestId id : batch) {
    auto found = entries_.find(id);
    if (found == entries_.end()) continue;
    Entry& entry = found->second;
    if (entry.forgotten) {
      entries_.erase(found);
    } else if (entry.attempts > policy_.max_retries) {
      failed.push_back(id);
      erase(id, entry);
    } else {
      entry.begun = false;
      suspects_.push_back(id);
      ++waiting_;
    }
  }
  return failed;
}

void RequestQueue::returned(const std::vector<RequestId>& batch) {
  for (auto id = batch.rbegin(); id != batch.rend(); ++id) {
    auto found = entries_.find(*id);
    if (found == entries_.end()) continue;
    Entry& entry = found->second;
    if (entry.forgotten) {
      entries_.erase(found);
      continue;
    }
    entry.begun = false;
    --entry.attempts;
    (entry.attempts > 0 ? suspects_ : line_).push_front(*id);
    ++waiting_;
  }
}

bool RequestQueue::abandon(RequestId id) {
  auto found = entries_.find(id);
  if (found == entries_.end()) return true;
  Entry& entry = found->second;
  if (entry.begun) {
    deadlines_.erase({entry.deadline, id});
    entry.forgotten = true;
    return false;
  }
  --waiting_;
  erase(id, entry);
  return true;
}

std::vector<RequestId> RequestQueue::expire(Clock::time_point now) {
  std::vector<RequestId> expired;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    RequestId id = deadlines_.begin()->second;
    abandon(id);
    expired.push_back(id);
  }
  return expired;
}

std::optional<Clock::time_point> RequestQueue::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

std::vector<RequestId> RequestQueue::clear() {
  std::vector<RequestId> given_up;
  for (const auto& [id, entry] : entries_) {
    if (!entry.begun) given_up.push_back(id);
  }
  std::sort(given_up.begin(), given_up.end());
  for (RequestId id : given_up) abandon(id);
  return given_up;
}

int RequestQueue::attempts(RequestId id) const {
  auto found = entries_.find(id);
  return found == entries_.end() ? 0 : found->second.attempts;
}

}  // namespace manta::serve
