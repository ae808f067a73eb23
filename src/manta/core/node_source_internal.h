#pragma once

#include <functional>
#include <memory>
#include <string>

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
  /// A host that nodes can be reached at, to choose this host's address by; empty if none is known.
  virtual std::string a_host() const = 0;
  /// Starts what starts agents. `order` is complete but for `started_as`.
  virtual void start(const AgentOrder& order, OnFailed on_failed) = 0;
  /// The run is over, and its agents were told: waits for what the source has started, not for
  /// long.
  virtual void finish() = 0;
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

}  // namespace manta
