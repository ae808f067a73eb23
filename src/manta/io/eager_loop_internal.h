#pragma once

#include "manta/io/event_loop_internal.h"

namespace manta {

/// As loop.context.run(), for a loop whose events often follow each other within microseconds: then
/// it looks for the next one before it sleeps (see EagerWait).
void run_eagerly(EventLoop& loop);

}  // namespace manta
