#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {

void throw_status(const arrow::Status& status, std::string_view doing) {
  ErrorKind kind = ErrorKind::kIo;
  if (status.IsOutOfMemory() || status.IsCapacityError()) kind = ErrorKind::kResources;
  if (status.IsInvalid() || status.IsTypeError() || status.IsNotImplemented() ||
      status.IsIndexError()) {
    kind = ErrorKind::kInvalidArgument;
  }
  if (status.IsKeyError()) kind = ErrorKind::kNotFound;
  if (status.IsSerializationError()) kind = ErrorKind::kCorrupt;
  if (status.IsCancelled()) kind = ErrorKind::kCancelled;
  std::string limits = status.IsOutOfMemory() ? "; " + describe_limits() : "";
  throw Error(kind, str(doing, ": ", status_text(status), limits));
}

std::string status_text(const arrow::Status& status) {
  return status.detail() ? str(status.message(), ": ", status.detail()->ToString())
                         : status.message();
}

}  // namespace manta
