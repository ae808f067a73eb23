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

/// How the receiver knows that the bytes are those that were sent.
enum class BulkCheck {
  kByTransport,  ///< TLS refuses others; a Unix socket has none.
  /// Their checksum follows them (XXH3, 64 bits). It finds bytes that were damaged by accident, in
  /// a switch or in memory; not those that somebody has changed, who can change the checksum, too.
  kChecksum,
};

/// Sends all of them.
void send_bulk(Transport& to, std::span<const uint8_t> bytes, std::chrono::nanoseconds patience,
               BulkCheck check = BulkCheck::kByTransport);

/// Receives `size` bytes (at least one) into new shared memory. Memory is taken as bytes arrive.
/// Throws Error(kCorrupt) if their checksum is another.
std::shared_ptr<SharedMemory> receive_bulk(Transport& from, size_t size,
                                           std::chrono::nanoseconds patience,
                                           BulkCheck check = BulkCheck::kByTransport);

}  // namespace manta
