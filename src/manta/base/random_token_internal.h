#pragma once

#include <string>

namespace manta {

/// 32 bytes that nobody can guess.
std::string random_token();

}  // namespace manta
