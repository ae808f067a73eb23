#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/serve/metrics_internal.h"

namespace manta::serve {
namespace {

struct Family {
  const char* name;
  const char* type;
  const char* help;
};
constexpr Family kFamilies[] = {
    {"manta_serve_requests_total", "counter", "Requests by the status of their answer."},
    {"manta_serve_latency_seconds", "histogram", "From a request's arrival to its answer."},
    {"manta_serve_batches_total", "counter", "Batches that replicas have answered."},
    {"manta_serve_retries_total", "counter",
     "Requests given to another replica after one was lost."},
    {"manta_serve_queued_requests", "gauge", "Requests that wait for a replica."},
    {"manta_serve_replicas", "gauge", "Replicas that serve."},
    {"manta_serve_replicas_wanted", "gauge", "Replicas that there should be."},
    {"manta_serve_replica_restarts_total", "counter", "Replicas that took the place of lost ones."},
    {"manta_serve_connections", "gauge", "Open connections."},
    {"manta_serve_refused_total", "counter", "Requests refused before they reached a deployment."},
};

}  // namespace

void LatencyHistogram::observe(std::chrono::nanoseconds latency) {
  double seconds = std::chrono::duration<double>(latency).count();
  auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += seconds;
}

void LatencyHistogram::append(std::string& out, const std::string& name,
                              const std::string& labels) const {
  uint64_t total = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    std::string bound = i < kBounds.size() ? str(kBounds[i]) : "+Inf";
    out += str(name, "_bucket{", labels, ",le=\"", bound, "\"} ", total, "\n");
  }
  out += str(name, "_sum{", labels, "} ", sum_, "\n", name, "_count{", labels, "} ", total, "\n");
}

// A deployment's name has no characters that a label would have to escape.
void MetricsPage::add(const std::string& deployment, const DeploymentMetrics& metrics,
                      const DeploymentGauges& gauges) {
  std::string labels = str("deployment=\"", deployment, "\"");
  auto add = [&](const char* name, auto value) {
    families_[name] += str(name, "{", labels, "} ", value, "\n");
  };
  for (const auto& [status, count] : metrics.requests) {
    families_["manta_serve_requests_total"] +=
        str("manta_serve_requests_total{", labels, ",status=\"", status, "\"} ", count, "\n");
  }
  metrics.latency.append(families_["manta_serve_latency_seconds"], "manta_serve_latency_seconds",
                         labels);
  add("manta_serve_batches_total", metrics.batches);
  add("manta_serve_retries_total", metrics.retries);
  add("manta_serve_queued_requests", gauges.queued);
  add("manta_serve_replicas", gauges.serving);
  add("manta_serve_replicas_wanted", gauges.target);
  add("manta_serve_replica_restarts_total", gauges.restarts);
}

void MetricsPage::add_front(int connections, const std::map<int, uint64_t>& refused) {
  families_["manta_serve_connections"] += str("manta_serve_connections ", connections, "\n");
  for (const auto& [status, count] : refused) {
    families_["manta_serve_refused_total"] +=
        str("manta_serve_refused_total{status=\"", status, "\"} ", count, "\n");
  }
}

std::string MetricsPage::text() const {
  std::string text;
  for (const auto& family : kFamilies) {
    auto lines = families_.find(family.name);
    if (lines == families_.end()) continue;
    text += str("# HELP ", family.name, " ", family.help, "\n# TYPE ", family.name, " ",
                family.type, "\n", lines->second);
  }
  return text;
}

}  // namespace manta::serve
