#pragma once

#include <cstdint>
#include <string_view>

namespace manta {

/// CRC-32C (Castagnoli), as in iSCSI and TFRecord files: "123456789" gives 0xE3069283.
uint32_t crc32c(std::string_view bytes);

}  // namespace manta
