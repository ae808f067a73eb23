#include <cstdlib>

#include "manta/base/error_internal.h"
#include "manta/core/node_source_internal.h"

namespace manta {

std::unique_ptr<NodeSource> make_node_source(EventLoop& loop, ClusterOptions options,
                                             const SourceFiles& files) {
  std::unique_ptr<NodeSource> source;
  if (options.kind == "hosts") source = make_hosts_source(loop, options, files);
  if (options.kind == "join") source = make_join_source(options);
  if (options.kind == "ray") source = make_ray_source(loop, options, files);
  if (options.kind == "slurm") source = make_slurm_source(loop, options, files);
  if (!source) {
    throw Error(ErrorKind::kInvalidArgument,
                str("the cluster '", options.kind,
                    "' is unknown: it must be 'hosts', 'join', 'slurm' or 'ray'"));
  }
  options.check_all_taken();
  return source;
}

std::string found_cluster(const std::string& text) {
  size_t end = text.find(';');
  if (text.substr(0, end) != "auto") return text;
  std::string options = end == std::string::npos ? "" : text.substr(end);
  if (std::getenv("SLURM_JOB_ID")) return "slurm" + options;
  if (std::getenv("RAY_ADDRESS")) return "ray" + options;  // Ray sets it for a job's program
  return "";
}

bool driver_is_of_cluster(const ClusterOptions& options) {
  if (options.kind == "ray") return false;  // Ray may have given its resources to others
  return options.kind != "slurm" || slurm_node_of_driver();
}

}  // namespace manta
