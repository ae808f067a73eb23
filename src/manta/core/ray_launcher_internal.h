#pragma once

namespace manta {

/// A Python program that starts agents on the nodes of a Ray cluster. Its only argument is JSON:
///   {"address": "auto", "nodes": -1, "cpus": 0, "gpus": 0, "strategy": "PACK", "program": path}
/// with -1 nodes for all that there are, and 0 CPUs for all of a node. It writes, a line of JSON
/// each:
///   {"hello": 3, "cpus": 2}           so many agents it will start, with so many CPUs each
///   {"failed": why}                   it cannot, and ends
///   {"ended": "ray-1", "why": text}   an agent has ended, or will not come
/// After the first it reads {"order": text}, in which {name} becomes the agent's name ("ray-0" and
/// so on), and from then on
///   {"bring": "ray-3"}                one more agent
///   {"left": "ray-1"}                 it ends by itself: its place is taken back if it does not
///   {"withdraw": "ray-3"}             it is not wanted any more
/// Each agent has its own placement group, which is removed with it: Ray's autoscaler may bring
/// places one by one, and take back each. The program ends, and ends its agents, when its standard
/// input ends.
const char* ray_launcher();

}  // namespace manta
