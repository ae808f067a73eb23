#pragma once

#include <chrono>
#include <memory>
#include <span>

#include "manta/base/names_internal.h"
#include "manta/io/shared_memory.h"
#include "manta/io/transport_internal.h"

namespace manta {

/// The bytes of a large object, on a separate connection between two threads. There are no frames,
/// because both ends know the number of bytes. Each call returns when it is done. It throws
/// Error(kTimeout) when nothing has moved for `patience`, and Error(kIo) when the peer closes; both
/// name the peer and the number of bytes moved.

/// How the receiver knows that the bytes are those that were sent.
enum class BulkCheck {
  kByTransport,  ///< TLS refuses changed bytes; on a Unix socket there are none.
  /// Their checksum follows them (XXH3, 64 bits). It detects accidental damage, in a switch or in
  /// memory. It does not detect intentional changes: an attacker can change the checksum, too.
  kChecksum,
};

/// Sends all bytes.
void send_bulk(Transport& to, std::span<const uint8_t> bytes, std::chrono::nanoseconds patience,
               BulkCheck check = BulkCheck::kByTransport);

/// Receives `size` bytes (at least one) into new shared memory. Memory is taken as bytes arrive.
/// Throws Error(kCorrupt) if the checksum differs.
std::shared_ptr<SharedMemory> receive_bulk(Transport& from, size_t size,
                                           std::chrono::nanoseconds patience,
                                           BulkCheck check = BulkCheck::kByTransport);

}  // namespace manta
