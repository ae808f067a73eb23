#include "manta/base/error_internal.h"
#include "manta/serve/replica_frames_internal.h"
#include "manta/serve/served_deployment_internal.h"

namespace manta::serve {
namespace {

constexpr int kClientGone = 499;  // counted as nginx does; no client gets this answer

}  // namespace

QueuePolicy ServedDeployment::policy_of(const DeploymentOptions& options) {
  return {options.max_queued_requests, options.batching.max_rows, options.batching.max_delay,
          options.max_retries};
}

void ServedDeployment::on_request(const std::shared_ptr<HttpConnection>& connection,
                                  std::unique_ptr<HttpRequest> request) {
  auto now = Clock::now();
  auto deadline = now + options().request_timeout;
  RequestId id = ++next_request_;
  if (auto refused = queue_.admit(id, deadline, now)) {
    bool full = refused->why == RequestQueue::Refused::kFull;
    HttpResponse response{503};
    response.body =
        error_body(full ? str(queue_.waiting(), " requests wait for '", name_,
                              "' already (DeploymentOptions::max_queued_requests)")
                        : str("'", name_, "' would not answer within ",
                              options().request_timeout.count(), " ms: ", queue_.waiting(),
                              " requests wait (DeploymentOptions::request_timeout)"));
    response.extra_fields = str("Retry-After: ", refused->retry_after.count(), "\r\n");
    ++metrics_.requests[503];
    return connection->respond(response);
  }
  connection->tag = id;
  pending_.emplace(id, Pending{connection, std::move(request), now, deadline});
  if (deadline < deadline_armed_) arm_deadline();
  request_dispatch();
}

void ServedDeployment::on_gone(RequestId id) {
  if (pending_.erase(id) == 0) return;
  ++metrics_.requests[kClientGone];
  queue_.abandon(id);
  check_removed();
}

// At the end of this turn of the loop: the requests that arrive in it go together.
void ServedDeployment::request_dispatch() {
  if (std::exchange(dispatch_posted_, true)) return;
  front_.loop().post([this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    dispatch_posted_ = false;
    dispatch();
  });
}

void ServedDeployment::dispatch() {
  auto now = Clock::now();
  for (auto& [id, process] : processes_) {
    if (process->state != Process::kIdle || process->draining) continue;
    auto batch = queue_.take(now);
    if (batch.empty()) break;
    send_batch(*process, std::move(batch));
  }
  if (auto at = queue_.next_batch_at(); at && *at > now) {
    batch_timer_ = front_.loop().after(*at - now, [this] { dispatch(); });
  }
}

void ServedDeployment::send_batch(Process& process, std::vector<RequestId> batch) {
  auto now = Clock::now();
  std::vector<WorkItem> items;
  items.reserve(batch.size());
  process.batch_deadline = now;
  for (RequestId id : batch) {
    Pending& pending = pending_.at(id);
    auto left = std::chrono::duration_cast<std::chrono::microseconds>(pending.deadline - now);
    items.push_back({id, left.count(), pending.request->head, pending.request->body});
    process.batch_deadline = std::max(process.batch_deadline, pending.deadline);
  }
  process.batch = std::move(batch);
  process.batch_sent = now;
  process.state = Process::kBusy;
  put_work(process.work->out_to_flush(), items);
  process.work->flush();
  if (!process.work->broken()) return;
  // The replica has died, and its end will be reported soon. Whatever it has got of this batch, it
  // began none of it.
  queue_.returned(std::exchange(process.batch, {}));
}

void ServedDeployment::on_answers(Process& process, Frame& frame) {
  auto answers = read_answers(frame);
  auto batch = std::exchange(process.batch, {});
  process.state = Process::kIdle;
  queue_.answered(batch, Clock::now() - process.batch_sent);
  replicas_.on_answered(process.id);
  ++metrics_.batches;
  // Sends the next requests first: the replica works on them while these answers are written.
  if (process.draining) {
    stop(process);
  } else {
    dispatch();
  }
  for (auto& answer : answers) {
    std::erase(batch, answer.id);
    respond(answer.id, {answer.status, std::move(answer.body)});
  }
  for (RequestId id : batch) respond(id, {500, error_body("the replica gave no answer")});
  check_removed();
}

void ServedDeployment::respond(RequestId id, HttpResponse response) {
  auto node = pending_.extract(id);
  if (node.empty()) return;  // the request has been answered, or its client has gone
  Pending& pending = node.mapped();
  ++metrics_.requests[response.status];
  metrics_.latency.observe(Clock::now() - pending.arrived);
  pending.connection->respond(response);
}

void ServedDeployment::condemn(const std::vector<RequestId>& ids, const std::string& why) {
  for (RequestId id : ids) {
    respond(id, {500, error_body(str("every replica that worked on this request was lost (",
                                     options().max_retries + 1,
                                     " times; DeploymentOptions::max_retries); the last: ", why))});
  }
}

void ServedDeployment::arm_deadline() {
  deadline_timer_.reset();
  deadline_armed_ = Clock::time_point::max();
  auto at = queue_.next_deadline();
  if (!at) return;
  deadline_armed_ = *at;
  deadline_timer_ = front_.loop().after(*at - Clock::now(), [this] { expire(); });
}

void ServedDeployment::expire() {
  for (RequestId id : queue_.expire(Clock::now())) {
    respond(id, {504, error_body(str("no answer within ", options().request_timeout.count(),
                                     " ms (DeploymentOptions::request_timeout)"))});
  }
  arm_deadline();
  check_removed();
}

}  // namespace manta::serve
