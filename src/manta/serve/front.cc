#include <atomic>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/init.h"
#include "manta/core/session_folder_internal.h"
#include "manta/serve/front_internal.h"
#include "manta/serve/metrics_internal.h"
#include "manta/serve/predictions_json_internal.h"
#include "manta/serve/replica_frames_internal.h"
#include "manta/serve/served_deployment_internal.h"

namespace manta::serve {
namespace {

std::string new_address() {
  static std::atomic<int> count{0};
  return str(current_session_folder(), "/serve-", count++, ".sock");
}

}  // namespace

Front::Front(const HttpOptions& options)
    : options_(options), replica_token_(random_token()), replica_address_(new_address()) {
  {
    std::lock_guard lock(loop_.mutex);
    http_ = std::make_unique<HttpServer>(loop_, options, *this);
    replicas_ = std::make_unique<UnixListener>(
        loop_, replica_address_,
        [this](const auto& channel, Frame& frame) { on_first_frame(channel, frame); });
  }
  gate_->loop = &loop_;
  thread_ = start_thread("the thread of the HTTP front", [this] {
    while (!loop_.context.stopped()) {
      try {
        loop_.context.run();
      } catch (const std::exception& error) {  // an error of one handler: the others go on
        log_error(str("serve: ", error.what()));
      }
    }
  });
}

Front::~Front() { stop(); }

void Front::stop() {
  {
    std::lock_guard lock(gate_->mutex);
    gate_->loop = nullptr;
  }
  if (!thread_.joinable()) return;
  loop_.context.stop();
  thread_.join();
  std::lock_guard lock(loop_.mutex);
  http_->close();
  deployments_.clear();  // with the handles of their replicas, which end
  ending_.clear();
  replicas_.reset();
}

Front::Post Front::poster() const {
  return [gate = gate_](std::function<void()> function) {
    std::lock_guard lock(gate->mutex);
    if (gate->loop) gate->loop->post(std::move(function));
  };
}

bool Front::has_room(const Resources& resources) {
  Resources free = nodes().front().free;  // replicas run on the driver's node
  auto amount = [](const NamedAmounts& amounts, const std::string& name) {
    for (const auto& [each, value] : amounts) {
      if (each == name) return value;
    }
    return 0.0;
  };
  for (const auto& [name, value] : resources.custom) {
    if (amount(free.custom, name) < value) return false;
  }
  return free.cpus >= resources.cpus && free.gpus >= resources.gpus &&
         free.memory >= resources.memory;
}

// ---- Deployments

void Front::deploy(DeploySpec spec, Done done) {
  check_deployment(spec.options);
  const std::string& name = spec.options.name;
  if (draining_)
    throw Error(ErrorKind::kCancelled, str("deploying '", name, "': serve is shutting down"));
  for (const auto& [other, deployment] : deployments_) {
    if (other != name && deployment->route() == spec.options.route_prefix) {
      throw Error(
          ErrorKind::kInvalidArgument,
          str("deploying '", name, "': the route ", spec.options.route_prefix, " is that of '",
              other, "'; set another DeploymentOptions::route_prefix, or remove '", other, "'"));
    }
  }
  auto& place = deployments_[name];
  if (place && place->is_removing()) {  // its first deploy has failed
    auto number = place->number();
    ending_[number] = std::move(place);
  }
  if (!place) {
    place = std::make_unique<ServedDeployment>(*this, name, next_deployment_++);
    by_number_[place->number()] = place.get();
  }
  place->deploy(std::move(spec), std::move(done));
}

void Front::remove(const std::string& name, Done done) {
  auto node = deployments_.extract(name);
  if (node.empty()) {
    throw Error(ErrorKind::kNotFound, str("serve: there is no deployment '", name, "'; there is ",
                                          deployments_.empty() ? "none" : routes()));
  }
  ServedDeployment& deployment = *node.mapped();
  ending_[deployment.number()] = std::move(node.mapped());
  deployment.remove(std::move(done));
}

// Called by the deployment itself: it must return first.
void Front::on_removed(ServedDeployment& deployment, std::vector<Done> done) {
  auto number = deployment.number();
  by_number_.erase(number);
  loop_.post([this, number, done = std::move(done)] {
    std::erase_if(deployments_, [&](const auto& each) { return each.second->number() == number; });
    ending_.erase(number);
    for (const auto& each : done) each(std::nullopt);
    check_drained();
  });
}

void Front::drain(Done done) {
  drained_.push_back(std::move(done));
  draining_ = true;
  http_->drain();
  while (!deployments_.empty()) {
    remove(std::string(deployments_.begin()->first), [](const auto&) {});
  }
  check_drained();
}

void Front::check_drained() {
  if (!draining_ || !deployments_.empty() || !ending_.empty()) return;
  for (auto& done : std::exchange(drained_, {})) done(std::nullopt);
}

Status Front::status() const {
  Status status;
  status.url = http_->url();
  status.pid = ::getpid();
  for (const auto& [name, deployment] : deployments_)
    status.deployments.push_back(deployment->status());
  for (const auto& [number, deployment] : ending_)
    status.deployments.push_back(deployment->status());
  return status;
}

uint64_t Front::expect_replica(ServedDeployment& deployment) {
  expected_[next_replica_] = &deployment;
  return next_replica_++;
}

void Front::on_first_frame(const std::shared_ptr<AsyncChannel>& channel, Frame& frame) {
  auto join = read_frame<Join>(frame, ReplicaFrame::kJoin);
  if (!same_secret(join.token, replica_token_))
    throw Error(ErrorKind::kInvalidArgument, "wrong token");
  auto expected = expected_.find(join.replica);
  if (expected == expected_.end()) return channel->close();  // it was given up meanwhile
  expected->second->on_joined(join.replica, join.for_health, join.pid, channel);
}

// ---- Requests

void Front::on_request(const std::shared_ptr<HttpConnection>& connection,
                       std::unique_ptr<HttpRequest> request) {
  const RequestHead& head = request->parts;
  connection->tag = 0;
  if (auto* deployment = find_route(head.path)) {
    if (head.method == "POST") return deployment->on_request(connection, std::move(request));
    ++refused_[405];
    return connection->respond({405, error_body("predictions are asked for with POST"),
                                "application/json", "Allow: POST\r\n"});
  }
  if (respond_to_own(*connection, head)) return;
  ++refused_[404];
  connection->respond({404, error_body(str("nothing is deployed at ", head.path, "; there is ",
                                           routes().empty() ? "nothing deployed" : routes()))});
}

bool Front::respond_to_own(HttpConnection& connection, const RequestHead& head) {
  bool known = head.path == "/-/healthz" || head.path == "/-/routes" || head.path == "/metrics";
  if (!known) return false;
  if (head.method != "GET" && head.method != "HEAD") {
    ++refused_[405];
    connection.respond({405, error_body("use GET"), "application/json", "Allow: GET, HEAD\r\n"});
  } else if (head.path == "/-/healthz") {
    std::string missing;
    for (const auto& [name, deployment] : deployments_) {
      if (!deployment->is_serving()) missing += str(missing.empty() ? "" : ", ", name);
    }
    if (missing.empty()) {
      connection.respond({200, "{\"status\":\"ok\"}"});
    } else {
      connection.respond({503, error_body("no replica serves: " + missing)});
    }
  } else if (head.path == "/-/routes") {
    std::string body = "{";
    for (const auto& [name, deployment] : deployments_) {
      if (!deployment->serves_route()) continue;
      if (body.size() > 1) body += ',';
      append_json_string(body, deployment->route());
      body += ':';
      append_json_string(body, name);
    }
    connection.respond({200, body + "}"});
  } else {
    MetricsPage page;
    for (const auto& [name, deployment] : deployments_) deployment->add_metrics(page);
    page.add_front(http_->connections(), refused_);
    connection.respond({200, page.text(), "text/plain; version=0.0.4; charset=utf-8"});
  }
  return true;
}

void Front::on_gone(HttpConnection& connection) {
  auto found = by_number_.find(connection.tag >> 40);
  if (found != by_number_.end()) found->second->on_gone(connection.tag);
}

ServedDeployment* Front::find_route(std::string_view path) const {
  if (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  for (const auto& [name, deployment] : deployments_) {
    if (deployment->serves_route() && deployment->route() == path) return deployment.get();
  }
  return nullptr;
}

std::string Front::routes() const {
  std::string text;
  for (const auto& [name, deployment] : deployments_) {
    if (deployment->serves_route()) text += str(text.empty() ? "" : ", ", deployment->route());
  }
  return text;
}

}  // namespace manta::serve
