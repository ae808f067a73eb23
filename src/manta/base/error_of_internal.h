#pragma once

#include <gtest/gtest.h>

#include <string>

#include "manta/base/error_internal.h"

namespace manta {

/// For tests: the Error that `f` throws. The test fails if `f` throws none.
template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::kCancelled, "");
}

template <class F>
std::string message_of(F&& f) {
  return error_of(f).what();
}

}  // namespace manta
