#include "manta/base/error_internal.h"
#include "manta/core/node_source_internal.h"

namespace manta {

std::unique_ptr<NodeSource> make_node_source(EventLoop& loop, ClusterOptions options,
                                             const SourceFiles& files) {
  std::unique_ptr<NodeSource> source;
  if (options.kind == "hosts") source = make_hosts_source(loop, options, files);
  if (options.kind == "join") source = make_join_source(options);
  if (!source) {
    throw Error(ErrorKind::kInvalidArgument,
                str("the cluster '", options.kind, "' is unknown: it must be 'hosts' or 'join'"));
  }
  options.check_all_taken();
  return source;
}

}  // namespace manta
