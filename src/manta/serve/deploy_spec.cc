#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/serve/deploy_spec_internal.h"

namespace manta::serve {
namespace {

bool is_name_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '-' || c == '.';
}

void require(bool ok, const char* name, const char* range, int64_t was) {
  if (ok) return;
  throw Error(ErrorKind::kInvalidArgument,
              str("DeploymentOptions::", name, " must be ", range, " (was ", was, ")"));
}

}  // namespace

void check_deployment(DeploymentOptions& options) {
  constexpr size_t kLongest = 200;
  if (options.name.empty() || options.name.size() > kLongest || options.name == "-" ||
      options.name == "metrics" ||
      !std::all_of(options.name.begin(), options.name.end(), is_name_character)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("DeploymentOptions::name must be 1 to ", kLongest,
                    " letters, digits, '_', '-' and '.', and not \"-\" or \"metrics\" (was \"",
                    options.name, "\")"));
  }
  std::string& route = options.route_prefix;
  if (route.empty()) route = "/" + options.name;
  bool clean = std::all_of(route.begin(), route.end(),
                           [](char c) { return is_name_character(c) || c == '/'; });
  if (!clean || route[0] != '/' || route.size() > kLongest ||
      (route.size() > 1 && route.back() == '/') || route.find("//") != std::string::npos ||
      route.rfind("/-", 0) == 0 || route == "/metrics") {
    throw Error(ErrorKind::kInvalidArgument,
                str("DeploymentOptions::route_prefix must begin and not end with '/', have only "
                    "letters, digits, '_', '-', '.' and '/', and not be \"/metrics\" or begin with "
                    "\"/-\" (was \"",
                    route, "\")"));
  }
  require(options.num_replicas >= 1 && options.num_replicas <= 1000, "num_replicas",
          "from 1 to 1000", options.num_replicas);
  require(options.batching.max_rows >= 1 && options.batching.max_rows <= 1024, "batching.max_rows",
          "from 1 to 1024", options.batching.max_rows);
  require(options.batching.max_delay.count() >= 0, "batching.max_delay", "0 or more microseconds",
          options.batching.max_delay.count());
  require(options.max_queued_requests >= 1, "max_queued_requests", "positive",
          options.max_queued_requests);
  require(options.max_retries >= 0, "max_retries", "0 or more", options.max_retries);
  require(options.request_timeout.count() > 0, "request_timeout", "positive",
          options.request_timeout.count());
  require(options.health_check_period.count() > 0, "health_check_period", "positive",
          options.health_check_period.count());
  require(options.health_check_timeout.count() > 0, "health_check_timeout", "positive",
          options.health_check_timeout.count());
  require(options.graceful_shutdown_timeout.count() >= 0, "graceful_shutdown_timeout", "0 or more",
          options.graceful_shutdown_timeout.count());
  require(options.deploy_timeout.count() > 0, "deploy_timeout", "positive",
          options.deploy_timeout.count());
}

}  // namespace manta::serve
