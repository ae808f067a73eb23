#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace manta {

/// The parsed value of `InitOptions::cluster` or MANTA_CLUSTER: the kind of node source, its list,
/// and options, as in "hosts:n1,n2;command=ssh -l me {host};address=10.0.0.5". See
/// docs/clusters.md.
struct ClusterOptions {
  std::string kind;               ///< "hosts", "join", "slurm" or "ray".
  std::vector<std::string> list;  ///< Of hosts; for "join" and "ray", the number of nodes.
  std::map<std::string, std::string> options;  ///< Of the source.

  // Of all sources.
  std::string address;  ///< Of this host, for the others. Default: see listen_address.
  std::chrono::milliseconds wait{30'000};         ///< How long all nodes may take to join.
  std::chrono::milliseconds dead_after{4'000};    ///< A node that is silent for this long is lost.
  std::chrono::milliseconds fence_after{10'000};  ///< A node that hears nothing for this long ends
                                                  ///< its processes.
  /// Of this host. Default: InitOptions::resources, or what driver_is_of_cluster means.
  std::optional<double> driver_cpus = {};
  /// Encrypt values on their way between hosts. If false, anybody on the network path can read, and
  /// change, the content of values over 100 KB; see docs/clusters.md.
  bool encrypt_objects = true;

  // For nodes that come and go: see NodeSupply.
  bool replace = true;                   ///< Replace a node that is lost.
  std::optional<size_t> min_nodes = {};  ///< Default: as many as the run begins with.
  std::optional<size_t> max_nodes = {};  ///< Default: as many as the run begins with.
  std::chrono::milliseconds idle{0};     ///< A node beyond min_nodes that is idle this long is
                                         ///< given back. 0: never.
  std::chrono::milliseconds grow_wait{300'000};  ///< How long to wait for a node that something
                                                 ///< needs.

  /// Throws Error(kInvalidArgument) that quotes the part it does not understand.
  static ClusterOptions parse(const std::string& text);
  /// Returns the option, and marks it as taken.
  std::string take(const std::string& name, const std::string& otherwise = {});
  /// The option as a number that is not negative. Throws Error(kInvalidArgument) if it is not such
  /// a number.
  double take_number(const std::string& name, double otherwise);
  /// The list as a number of nodes, as in "join:3". Throws Error(kInvalidArgument) if it is not a
  /// number.
  size_t count() const;
  /// Throws Error(kInvalidArgument) if there are options that were not taken.
  void check_all_taken() const;
};

}  // namespace manta
