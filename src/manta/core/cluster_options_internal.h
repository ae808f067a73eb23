#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace manta {

/// What `InitOptions::cluster` or MANTA_CLUSTER says: the kind of node source, its list, and
/// options, as in "hosts:n1,n2;command=ssh -l me {host};address=10.0.0.5". See docs/clusters.md.
struct ClusterOptions {
  std::string kind;               ///< "hosts", "join", "slurm" or "ray".
  std::vector<std::string> list;  ///< Of hosts; for "join" and "ray", the number of nodes.
  std::map<std::string, std::string> options;  ///< Of the source.

  // Of all sources.
  std::string address;  ///< Of this host, for the others. Default: see listen_address.
  std::chrono::milliseconds wait{30'000};         ///< For all nodes to join.
  std::chrono::milliseconds dead_after{4'000};    ///< Without a word, a node counts as lost.
  std::chrono::milliseconds fence_after{10'000};  ///< Without a word, a node ends its processes.
  /// Of this host. Default: InitOptions::resources, or what driver_is_of_cluster means.
  std::optional<double> driver_cpus = {};
  /// Between hosts. No: whoever is on the way can read, and change, the content of values over 100
  /// KB; see docs/clusters.md.
  bool encrypt_objects = true;

  // Of those that come and go: see NodeSupply.
  bool replace = true;                   ///< A node that is lost.
  std::optional<size_t> min_nodes = {};  ///< Default: all that the run begins with.
  std::optional<size_t> max_nodes = {};  ///< Default: those that the run begins with.
  std::chrono::milliseconds idle{0};     ///< Then a node beyond min_nodes is given back. 0: never.
  std::chrono::milliseconds grow_wait{300'000};  ///< For a node that something needs.

  /// Throws Error(kInvalidArgument) that quotes what it does not understand.
  static ClusterOptions parse(const std::string& text);
  /// The option, which the source then has seen.
  std::string take(const std::string& name, const std::string& otherwise = {});
  /// The option as a number that is not negative. Throws Error(kInvalidArgument) if it is none.
  double take_number(const std::string& name, double otherwise);
  /// The list as a number of nodes, as in "join:3". Throws Error(kInvalidArgument) if it is none.
  size_t count() const;
  /// Throws Error(kInvalidArgument) if options are left that nobody has taken.
  void check_all_taken() const;
};

}  // namespace manta
