#pragma once

#include <memory>
#include <string>

#include "manta/core/node_messages_internal.h"
#include "manta/io/tls_internal.h"

namespace manta {

/// The driver of a run, as an agent has found it.
struct FoundDriver {
  AgentOrder order;
  std::unique_ptr<Transport> connection;  ///< Both ends have proved that they have the token.
};

/// Connects to the driver. `from` is "stdin", kHeldByInput, or "file:" and the path of the file
/// that the driver writes. Such a file may not be there yet, or may be left over from a driver that
/// was killed. So find_driver reads it again and again for 20 seconds, or for the number of seconds
/// in "file:/shared/run.join;wait=300". Throws Error with the last reason.
FoundDriver find_driver(const std::string& from);

}  // namespace manta
