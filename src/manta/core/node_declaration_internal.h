#pragma once

#include "manta/core/placement.h"
#include "manta/core/resources.h"

namespace manta {

// What an agent's environment declares about its node; on the driver's machine InitOptions do that.

/// The labels in MANTA_NODE_LABELS, such as "zone=a,disk=ssd". Throws Error(kInvalidArgument) for
/// anything else.
Labels declared_labels();

/// The resources in MANTA_NODE_RESOURCES, such as "cpus=4,gpus=1,memory=8e9,license=2"; others are
/// detected. Throws Error(kInvalidArgument) for anything else.
MachineResources declared_resources();

}  // namespace manta
