#pragma once

#include "manta/base/error.h"

namespace manta {

/// The Error that `f` throws; one that no test expects if it throws none.
template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kInvalidArgument, "no error was thrown");
}

}  // namespace manta
