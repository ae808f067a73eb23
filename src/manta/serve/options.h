#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "manta/core/resources.h"
#include "manta/serve/adapters.h"

namespace manta::serve {

/// Where the HTTP front listens, and what it accepts from clients.
struct HttpOptions {
  /// An IP address of this machine, or "localhost". Any but a loopback address needs a token.
  std::string host = "127.0.0.1";
  int port = 8000;  ///< 0: any free port; `url()` says which.
  /// If set, requests need the header field `Authorization: Bearer <token>`, or get status 401.
  std::string token = {};
  int max_connections = 10'000;             ///< More are answered with 503 and closed.
  int64_t max_body = 64 << 20;              ///< Bytes. A larger body is answered with 413.
  int64_t max_header = 16 << 10;            ///< Bytes. A longer header is answered with 431.
  int64_t max_buffered = int64_t{1} << 30;  ///< Bytes of all bodies together; then 503.
  std::chrono::milliseconds header_timeout{10'000};  ///< From a request's first byte; then 408.
  std::chrono::milliseconds body_timeout{30'000};    ///< From its header to its end; then 408.
  std::chrono::milliseconds keep_alive{75'000};      ///< A silent connection is closed after that.

  bool operator==(const HttpOptions&) const = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(host, port, token, max_connections, max_body, max_header, max_buffered, header_timeout,
            body_timeout, keep_alive);
  }
};

struct StartOptions {
  /// Serving goes on when this program ends, in a process of its own, until `shutdown`. A later
  /// start of the same program joins it by its name.
  bool detached = false;
  /// The name of the detached process, among those of this user. Letters, digits, '_' and '-'.
  std::string name = "default";
  HttpOptions http = {};
};

/// Requests that wait when a replica becomes free are predicted together, in one call for those
/// that have the same columns.
struct BatchingOptions {
  /// The most rows of one call, unless a single request has more; also the most requests that a
  /// replica takes at a time.
  int max_rows = 64;
  /// How long a free replica lets requests wait for more of them. 0: not at all.
  std::chrono::microseconds max_delay{0};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(max_rows, max_delay);
  }
};

struct DeploymentOptions {
  /// The deployment's name, in its route, metrics and messages. Letters, digits, '_', '-' and '.'.
  std::string name = {};
  /// Where it answers: this path exactly, e.g. "/v1/cancer". Default: "/" and the name.
  std::string route_prefix = {};
  int num_replicas = 1;  ///< Processes, each with the model in memory.
  BatchingOptions batching = {};
  /// What each replica holds while it lives. Default: one CPU.
  Resources resources = {};
  /// How many requests may wait for a replica. Further ones get 503, with a Retry-After that is
  /// computed from the rate at which requests are answered.
  int max_queued_requests = 1000;
  /// From the arrival of a request to its answer; then 504. If the rate so far shows that a request
  /// cannot be answered in time, it gets 503 at once.
  std::chrono::milliseconds request_timeout{60'000};
  /// How often a request is given to another replica if the one that works on it dies. Then 500: a
  /// request that kills replicas does not kill the deployment. Set 0 if predicting twice does harm.
  int max_retries = 3;
  std::chrono::milliseconds health_check_period{1000};
  /// A replica that does not answer a health check for this long is killed and replaced. A separate
  /// thread of the replica answers, so a long prediction does no harm; but a replica that works on
  /// requests whose deadlines have all passed is replaced, too.
  std::chrono::milliseconds health_check_timeout{10'000};
  /// How long a replica that must end may take to answer the requests that it has.
  std::chrono::milliseconds graceful_shutdown_timeout{20'000};
  /// How long `deploy` waits until all replicas are healthy.
  std::chrono::milliseconds deploy_timeout{120'000};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, route_prefix, num_replicas, batching, resources, max_queued_requests,
            request_timeout, max_retries, health_check_period, health_check_timeout,
            graceful_shutdown_timeout, deploy_timeout);
  }
};

struct DeployOptions {
  /// Makes rows of requests: one of adapters.h, or a plain function of yours.
  HttpAdapter http_adapter = json_any;
};

}  // namespace manta::serve
