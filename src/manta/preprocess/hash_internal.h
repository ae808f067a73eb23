#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace manta::preprocess {

/// The SHA-256 of some bytes.
std::array<uint8_t, 32> sha256(std::string_view bytes);

/// A feature's number from 0 to `features` - 1, as Ray computes it: the SHA-256 of the bytes, as
/// one number with its first byte highest, modulo `features`.
uint64_t feature_of(std::string_view bytes, uint64_t features);

}  // namespace manta::preprocess
