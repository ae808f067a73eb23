#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace manta::serve {

struct DeploymentStatus {
  std::string name;
  std::string url;
  std::string predictor;   ///< The class or function that makes it.
  std::string checkpoint;  ///< Its folder or address.
  /// "healthy": all wanted replicas serve. "updating": a deploy is under way. "unhealthy": some
  /// replicas are missing; `message` says why. "removing": it answers the requests that it has, and
  /// ends.
  std::string state;
  std::string message;
  int num_replicas = 0;          ///< That serve now.
  int wanted_replicas = 0;       ///< That there should be.
  int queued_requests = 0;       ///< That wait for a replica.
  int64_t replica_restarts = 0;  ///< Replicas that took the place of lost ones.
  std::vector<int64_t> pids;     ///< Of the replicas that serve now.

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, url, predictor, checkpoint, state, message, num_replicas, wanted_replicas,
            queued_requests, replica_restarts, pids);
  }
};

struct Status {
  std::string url;  ///< Of the front: "http://127.0.0.1:8000".
  bool detached = false;
  int64_t pid = 0;  ///< Of the process that the front lives in.
  std::vector<DeploymentStatus> deployments;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(url, detached, pid, deployments);
  }
};

}  // namespace manta::serve
