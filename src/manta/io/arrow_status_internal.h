#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <string>

namespace manta {

/// Throws a failed Arrow status as an Error of the matching kind. `doing` says what was attempted,
/// on what.
void check(const arrow::Status& status, const std::string& doing);

/// Its message, with what the operating system said if it failed there.
std::string status_text(const arrow::Status& status);

template <class T>
T check(arrow::Result<T> result, const std::string& doing) {
  check(result.status(), doing);
  return std::move(result).ValueUnsafe();
}

}  // namespace manta
