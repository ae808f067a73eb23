#pragma once

#include <cstdint>
#include <memory>

namespace arrow {
class Buffer;
}  // namespace arrow

namespace manta::data {

/// Memory of zeros that may be written. From 4 MiB on in pages of 2 MiB, where the kernel has them:
/// new ones take a fraction of the time of pages of 4 KiB, and so does access in no order. Throws
/// Error(kResources) if there is not enough; `doing` says what for.
std::shared_ptr<arrow::Buffer> zeroed_buffer(int64_t bytes, const char* doing);

}  // namespace manta::data
