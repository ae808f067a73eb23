#pragma once

#include <chrono>
#include <memory>
#include <span>

#include "manta/base/names_internal.h"
#include "manta/io/shared_memory.h"
#include "manta/io/transport_internal.h"

namespace manta {

/// The bytes of a large object, on a connection of their own between two threads: no frames, as
/// both ends know how many there are. Each call returns when it is done. It throws Error(kTimeout)
/// when nothing has moved for `patience`, Error(kIo) when the peer closes, both with the peer and
/// how far it got.

/// Sends all of them.
void send_bulk(Transport& to, std::span<const uint8_t> bytes, std::chrono::nanoseconds patience);

/// Receives `size` bytes (at least one) into new shared memory. Memory is taken as bytes arrive.
std::shared_ptr<SharedMemory> receive_bulk(Transport& from, size_t size,
                                           std::chrono::nanoseconds patience);

}  // namespace manta
