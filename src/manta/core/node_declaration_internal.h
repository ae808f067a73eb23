#pragma once

#include "manta/core/placement.h"
#include "manta/core/resources.h"

namespace manta {

// What is declared of an agent's node in its environment; on the driver's machine InitOptions do.

/// Of MANTA_NODE_LABELS, such as "zone=a,disk=ssd". Throws Error(kInvalidArgument) for anything
/// else.
Labels declared_labels();

/// Of MANTA_NODE_RESOURCES, such as "cpus=4,gpus=1,memory=8e9,license=2": what it does not name is
/// detected. Throws Error(kInvalidArgument) for anything else.
MachineResources declared_resources();

}  // namespace manta
