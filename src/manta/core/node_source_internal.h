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

/// Brings nodes. It is the only part that depends on the kind of cluster. Everything runs with the
/// loop's mutex held.
class NodeSource {
 public:
  /// A node that was expected will not come: what the source called it, and why.
  using OnFailed = std::function<void(const std::string& started_as, const std::string& why)>;

  virtual ~NodeSource() = default;
  /// How many nodes the run waits for when it begins.
  virtual size_t expected() const = 0;
  /// Hosts of the nodes' network, the best first. They decide which of this host's addresses is
  /// used: the one from which the first of them is reached. Empty if none is known.
  virtual std::vector<std::string> some_hosts() const = 0;
  /// Starts the commands that start agents. `order` is complete except for `started_as`.
  virtual void start(const AgentOrder& order, OnFailed on_failed) = 0;
  /// Which nodes it could bring besides the `there` nodes that have joined or are on their way.
  /// Returns the names of nodes that it can bring again and, under an empty name, the number of
  /// others. Nodes that were started as one of `leaving` count as gone; they are not among the
  /// `there` nodes.
  virtual std::map<std::string, size_t> possible(size_t there,
                                                 const std::set<std::string>& leaving) const = 0;
  /// Starts the commands that bring `count` nodes of that name. Returns the names that their agents
  /// will report as `started_as`, if they are known beforehand.
  virtual std::vector<std::string> bring(const std::string& name, size_t count) = 0;
  /// Call it when a node that had joined has gone, or when a node did not come after it was
  /// brought. The source gives the node's place back to the cluster.
  virtual void on_left(const std::string& started_as) = 0;
  /// Call it when a node that was brought and has not joined is not wanted any more: ends the
  /// command that would bring it, and takes it out of the cluster's queue.
  virtual void withdraw(const std::string& started_as) = 0;
  /// The resources that a new node will have, if the options say.
  virtual std::optional<Resources> shape() const = 0;
  /// The last output of the commands that it has started, for a message about nodes that do not
  /// come.
  virtual std::string said() const = 0;
  /// Call it when the run is over and its agents were told: ends the commands that the source has
  /// started, by force after the deadline.
  virtual void finish(Deadline deadline) = 0;
};

struct SourceFiles {
  std::string session_folder;  ///< For logs of the commands that it starts.
  std::string program;         ///< The path of this binary.
};

/// Makes the source for `options.kind`. Throws Error(kInvalidArgument) for an unknown kind, or for
/// options that the kind does not have.
std::unique_ptr<NodeSource> make_node_source(EventLoop& loop, ClusterOptions options,
                                             const SourceFiles& files);

std::unique_ptr<NodeSource> make_hosts_source(EventLoop& loop, ClusterOptions& options,
                                              const SourceFiles& files);
std::unique_ptr<NodeSource> make_join_source(ClusterOptions& options);
std::unique_ptr<NodeSource> make_slurm_source(EventLoop& loop, ClusterOptions& options,
                                              const SourceFiles& files);
std::unique_ptr<NodeSource> make_ray_source(EventLoop& loop, ClusterOptions& options,
                                            const SourceFiles& files);

/// `text` with a leading "auto" replaced by the cluster in which this program was started ("slurm"
/// inside a Slurm job, "ray" inside a Ray job), or empty if it was started in no cluster.
std::string found_cluster(const std::string& text);

/// Whether the cluster gave the driver's machine to the run. The login node of a Slurm cluster, for
/// example, is not part of the job: the run must not use resources there that were not asked for.
bool driver_is_of_cluster(const ClusterOptions& options);
/// The hosts for NodeSource::some_hosts. `nodes` is the list of node addresses that `sinfo` prints,
/// one on each line; the controllers come from `scontrol show config`, as in "SlurmctldHost[0] =
/// n0(10.0.0.1)".
std::vector<std::string> slurm_hosts(const std::string& nodes, const std::string& config);
/// The name of the Slurm job's node on which this process runs; nothing if it runs on none.
std::optional<std::string> slurm_node_of_driver();

}  // namespace manta
