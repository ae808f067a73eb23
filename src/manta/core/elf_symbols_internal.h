#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace manta {

/// A function of an ELF file.
struct FunctionSymbol {
  uint64_t address = 0;  ///< As the file counts it.
  uint64_t size = 0;
  std::string_view name;  ///< Mangled, and without a zero behind it. Valid during the visit.
};

/// Calls `visit` for each function in the file's symbol tables of this type (SHT_SYMTAB, or
/// SHT_DYNSYM, which a stripped file has, too) until `visit` returns true. Maps the file and trusts
/// nothing in it: it may have been replaced by anything. False if the file has no such table.
bool visit_functions(const std::string& file, uint32_t type,
                     const std::function<bool(const FunctionSymbol&)>& visit);

/// The readable name of the function of an ELF file that contains `offset` (an address as the file
/// counts it), from the symbol table, or from the dynamic one of a stripped file. Empty if neither
/// knows. Maps the file and reads its whole table: some milliseconds for a large library.
std::string function_at(const std::string& file, uint64_t offset);

}  // namespace manta
