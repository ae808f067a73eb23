#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <string>
#include <string_view>

namespace manta {

/// Throws a failed Arrow status as an Error of the matching kind. `doing` says what was attempted,
/// and on which object.
[[noreturn]] void throw_status(const arrow::Status& status, std::string_view doing);

/// Throws if the status is a failure. Otherwise it costs next to nothing: it is called for each
/// value.
inline void check(const arrow::Status& status, std::string_view doing) {
  if (!status.ok()) [[unlikely]] {
    throw_status(status, doing);
  }
}

/// The status's message, with the operating system's error if there was one.
std::string status_text(const arrow::Status& status);

template <class T>
T check(arrow::Result<T> result, std::string_view doing) {
  check(result.status(), doing);
  return std::move(result).ValueUnsafe();
}

}  // namespace manta
