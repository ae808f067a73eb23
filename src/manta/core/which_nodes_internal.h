#pragma once

namespace manta {

/// Whose room counts where it is asked what is possible.
enum class WhichNodes {
  kPresent,     ///< That take work.
  kObtainable,  ///< Also those that are coming, or that could be asked for now.
  kAll,         ///< Also those that could be asked for once nodes have gone that drain.
};

}  // namespace manta
