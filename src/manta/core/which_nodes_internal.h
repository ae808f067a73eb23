#pragma once

namespace manta {

/// Which nodes count when something asks what is possible.
enum class WhichNodes {
  kPresent,     ///< Nodes that take work.
  kObtainable,  ///< Also nodes that are coming, or that could be asked for now.
  kAll,         ///< Also nodes that could be asked for once draining nodes have gone.
};

}  // namespace manta
