#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace manta::serve {

/// How long requests took, counted in Prometheus' way: each bucket includes all shorter ones.
class LatencyHistogram {
 public:
  void observe(std::chrono::nanoseconds latency);
  void append(std::string& out, const std::string& name, const std::string& labels) const;

 private:
  static constexpr std::array<double, 14> kBounds{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                  0.1,    0.25,  0.5,    1,     2.5,  5,     10};
  std::array<uint64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0;
};

/// Counts of events in a deployment since it began.
struct DeploymentMetrics {
  std::map<int, uint64_t> requests;  ///< By the answer's status; 499: the client has gone.
  LatencyHistogram latency;          ///< From a request's arrival to its answer, whatever that is.
  uint64_t batches = 0;
  uint64_t retries = 0;  ///< Requests given to another replica.
};

/// The present state of a deployment, in addition to its metrics.
struct DeploymentGauges {
  int queued = 0, serving = 0, target = 0;
  int64_t restarts = 0;
};

/// A page in Prometheus' text format.
class MetricsPage {
 public:
  void add(const std::string& deployment, const DeploymentMetrics& metrics,
           const DeploymentGauges& gauges);
  void add_front(int connections, const std::map<int, uint64_t>& refused);
  std::string text() const;

 private:
  std::map<std::string, std::string> families_;  // the lines of each, by name
};

}  // namespace manta::serve
