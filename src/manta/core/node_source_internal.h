#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/core/cluster_options_internal.h"
#include "manta/core/node_messages_internal.h"
#include "manta/io/event_loop_internal.h"

namespace manta {

/// Brings nodes: the only part that knows a kind of cluster. Everything runs with the loop's mutex
/// held.
class NodeSource {
 public:
  /// A node that was expected will not come: what the source called it, and why.
  using OnFailed = std::function<void(const std::string& started_as, const std::string& why)>;

  virtual ~NodeSource() = default;
  /// How many nodes the run waits for when it begins.
  virtual size_t expected() const = 0;
  /// Hosts of the network that nodes are on, the best first, to choose this host's address by: the
  /// one from which the first of them is reached. Empty if none is known.
  virtual std::vector<std::string> some_hosts() const = 0;
  /// Starts what starts agents. `order` is complete but for `started_as`.
  virtual void start(const AgentOrder& order, OnFailed on_failed) = 0;
  /// Which nodes it could bring beside the `there` ones that have joined or are on their way: the
  /// names of those that it can bring again, and, under an empty name, how many others. As if those
  /// had left that were started as one of `leaving`, which are not among the `there` ones.
  virtual std::map<std::string, size_t> possible(size_t there,
                                                 const std::set<std::string>& leaving) const = 0;
  /// Starts what brings `count` nodes of that name; what their agents will say that they were
  /// started as, if they are known beforehand.
  virtual std::vector<std::string> bring(const std::string& name, size_t count) = 0;
  /// A node that had joined has gone; or one did not come, after it was brought. What it had of the
  /// cluster is given back.
  virtual void on_left(const std::string& started_as) = 0;
  /// A node that was brought and has not joined is not wanted any more: ends what would bring it,
  /// and takes it out of the cluster's queue.
  virtual void withdraw(const std::string& started_as) = 0;
  /// What a new node will have, as far as the options say.
  virtual std::optional<Resources> shape() const = 0;
  /// The end of what the commands that it has started have printed, for a message about nodes that
  /// do not come.
  virtual std::string said() const = 0;
  /// The run is over, and its agents were told: ends what the source has started, by force after
  /// the deadline.
  virtual void finish(Deadline deadline) = 0;
};

struct SourceFiles {
  std::string session_folder;  ///< For logs of what it starts.
  std::string program;         ///< The path of this binary.
};

/// By `options.kind`. Throws Error(kInvalidArgument) for one that is unknown, or options that it
/// does not have.
std::unique_ptr<NodeSource> make_node_source(EventLoop& loop, ClusterOptions options,
                                             const SourceFiles& files);

std::unique_ptr<NodeSource> make_hosts_source(EventLoop& loop, ClusterOptions& options,
                                              const SourceFiles& files);
std::unique_ptr<NodeSource> make_join_source(ClusterOptions& options);
std::unique_ptr<NodeSource> make_slurm_source(EventLoop& loop, ClusterOptions& options,
                                              const SourceFiles& files);
std::unique_ptr<NodeSource> make_ray_source(EventLoop& loop, ClusterOptions& options,
                                            const SourceFiles& files);

/// `text` with "auto" in front replaced by the cluster that this program was started in ("slurm"
/// inside of a job of Slurm's, "ray" inside of one of Ray's), or empty if it was started in none.
std::string found_cluster(const std::string& text);

/// Whether the driver's machine is one of those that the cluster gave to the run. It is not on the
/// login node of a Slurm cluster, say: what is not asked for must not be used there.
bool driver_is_of_cluster(const ClusterOptions& options);
/// For NodeSource::some_hosts, by what `sinfo` says of the addresses of nodes, one on each line,
/// and `scontrol show config` of the controllers, as in "SlurmctldHost[0] = n0(10.0.0.1)".
std::vector<std::string> slurm_hosts(const std::string& nodes, const std::string& config);
/// The name of the node of the Slurm job that this process is on; nothing if it is on none.
std::optional<std::string> slurm_node_of_driver();

}  // namespace manta
