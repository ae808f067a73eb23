#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace manta {

/// What kind of thing went wrong: enough to decide whether to retry, fix the input or give up.
enum class ErrorKind {
  kInvalidArgument,  ///< The call can never succeed as written.
  kNotFound,         ///< A name, file or object that does not exist.
  kIo,               ///< The operating system, a disk or the network refused.
  kCorrupt,          ///< Bytes that are not what they should be.
  kResources,        ///< More was requested than there is.
  kTimeout,          ///< The deadline that the caller gave has passed.
  kWorkerLost,       ///< The process that held or computed the thing is gone.
  kUserCode,         ///< The user's function threw.
  kCancelled,        ///< It was asked to stop.
};

/// The kind's name as it appears in messages: "invalid argument", "worker lost", ...
std::string_view kind_name(ErrorKind kind);

/// Manta's only exception type. The message says what failed, on which object, what was received
/// and what to change; it is complete without the kind.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace manta

namespace manta::internal {

/// Streams the arguments one after the other into a string. For headers, which cannot use a
/// formatting library (torch brings another version of it).
template <class... Args>
std::string str(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

}  // namespace manta::internal
