#pragma once

#include <cstdint>
#include <memory>

namespace arrow {
class Buffer;
}  // namespace arrow

namespace manta::data {

/// Memory of zeros that may be written. From 4 MiB on it uses pages of 2 MiB, if the kernel has
/// them: compared with pages of 4 KiB, new pages and random access take a fraction of the time.
/// Throws Error(kResources) if there is not enough memory; `doing` says for which purpose.
std::shared_ptr<arrow::Buffer> zeroed_buffer(int64_t bytes, const char* doing);

}  // namespace manta::data
