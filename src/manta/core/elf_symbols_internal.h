#pragma once

#include <cstdint>
#include <string>

namespace manta {

/// The readable name of the function of an ELF file that contains `offset` (an address as the file
/// counts it), from the symbol table, or from the dynamic one of a stripped file. Empty if neither
/// knows. Maps the file and reads its whole table: some milliseconds for a large library.
std::string function_at(const std::string& file, uint64_t offset);

}  // namespace manta
