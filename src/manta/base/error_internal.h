#pragma once

#include "manta/base/error.h"
#include "manta/base/names_internal.h"

namespace manta {

/// Throws Error(kIo) with `what` and the text of `errno`.
[[noreturn]] void throw_errno(const std::string& what);

/// The text of an errno value. Thread-safe.
std::string errno_text(int error);

/// The readable name of a C++ type or symbol, from typeid(...).name(); without "(anonymous
/// namespace)::".
std::string demangle(const char* mangled);

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& why);

}  // namespace manta

/// Aborts if an invariant of Manta itself is broken. Never use it for user input.
#define MANTA_CHECK(condition, why)                                               \
  do {                                                                            \
    if (!(condition)) ::manta::check_failed(__FILE__, __LINE__, #condition, why); \
  } while (false)
