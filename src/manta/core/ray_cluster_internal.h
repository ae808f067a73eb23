#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/core/network_hosts_internal.h"
#include "manta/core/running_internal.h"

namespace manta {

/// For tests: a Ray cluster with its head, which has no CPUs, on n0 and a node with two CPUs on
/// each other host. It is killed with the hosts.
class RayCluster {
 public:
  /// `python` has Ray. Throws Error(kResources) if it is not there, Error(kIo) if Ray does not
  /// start.
  RayCluster(const NetworkHosts& hosts, int count, std::string python)
      : hosts_(hosts), count_(count), python_(std::move(python)) {
    if (!std::filesystem::exists(python_)) {
      throw Error(ErrorKind::kResources, str("'", python_, "' is not there (scripts/setup.sh)"));
    }
    // Unix sockets below it have long names.
    folder_ = str("/tmp/mr", ::getpid());
    // Ray gives its own daemons 30 seconds to start, which a busy machine may exceed.
    for (int tries = 1;; ++tries) {
      std::string failed = start_all();
      if (failed.empty()) return;
      remove();
      bool took_too_long = failed.find("timed out during startup") != std::string::npos;
      if (!took_too_long || tries == 3)
        throw Error(ErrorKind::kIo, "Ray does not start: " + failed);
    }
  }
  ~RayCluster() { remove(); }

  /// The environment of programs that use it.
  static std::map<std::string, std::string> environment() {
    return {{"RAY_ADDRESS", address()},
            {"RAY_AUTH_MODE", "token"},
            {"RAY_AUTH_TOKEN", std::string(64, 'a')}};
  }
  static std::string address() { return NetworkHosts::address(0) + ":6379"; }
  const std::string& python() const { return python_; }
  std::string logs() const {
    std::string text;
    for (const auto& each : daemons_) text += each->said();
    return text;
  }

 private:
  // The output of the first process that did not start; empty if all did.
  std::string start_all() {
    start("n0", {"--head", "--port=6379", "--include-dashboard=false", "--num-cpus=0",
                 "--temp-dir=" + folder_, "--node-ip-address=" + NetworkHosts::address(0)});
    if (!has_started(*daemons_[0])) return daemons_[0]->said();
    for (int i = 1; i < count_; ++i) {
      start(str("n", i), {"--address=" + address(), "--num-cpus=2",
                          "--node-ip-address=" + NetworkHosts::address(i)});
    }
    for (auto& each : daemons_) {
      if (!has_started(*each)) return each->said();
    }
    return "";
  }
  static bool has_started(Running& daemon) { return daemon.says("Ray runtime started"); }

  void remove() {
    daemons_.clear();
    for (int i = 0; i < count_; ++i) hosts_.crash(i);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void start(const std::string& host, const std::vector<std::string>& more) {
    // Each host sees its own folder there: nodes that start together would take the same names.
    std::string own = folder_ + "/" + host;
    std::filesystem::create_directories(own);
    std::string isolate = host == "n0" ? "" : str("mount --bind ", own, " ", folder_, "; ");
    std::vector<std::string> words{hosts_.enter(),
                                   host,
                                   "sh",
                                   "-c",
                                   isolate + "exec \"$@\"",
                                   "x",
                                   python_,
                                   "-c",
                                   "from ray.scripts.scripts import main; main()",
                                   "start",
                                   "--block",
                                   "--disable-usage-stats",
                                   "--object-store-memory=100000000"};
    words.insert(words.end(), more.begin(), more.end());
    daemons_.push_back(std::make_unique<Running>(words, environment(), output_ / (host + ".log")));
  }

  const NetworkHosts& hosts_;
  const int count_;
  const std::string python_;
  std::string folder_;
  TemporaryFolder output_;
  std::vector<std::unique_ptr<Running>> daemons_;
};

}  // namespace manta
