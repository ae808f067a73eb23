#pragma once

#include <string>
#include <string_view>

namespace manta {

/// 32 random bytes that cannot be guessed.
std::string random_token();

/// Compares in constant time: the time does not tell where they differ.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace manta
