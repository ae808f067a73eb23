#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <string>
#include <string_view>

namespace manta {

/// Throws a failed Arrow status as an Error of the matching kind. `doing` says what was attempted,
/// on what.
[[noreturn]] void throw_status(const arrow::Status& status, std::string_view doing);

/// The same if it has failed. Costs nothing to speak of otherwise: it is called for each value.
inline void check(const arrow::Status& status, std::string_view doing) {
  if (!status.ok()) [[unlikely]] {
    throw_status(status, doing);
  }
}

/// Its message, with what the operating system said if it failed there.
std::string status_text(const arrow::Status& status);

template <class T>
T check(arrow::Result<T> result, std::string_view doing) {
  check(result.status(), doing);
  return std::move(result).ValueUnsafe();
}

}  // namespace manta
