#include <cxxabi.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "manta/base/error_internal.h"

namespace manta {

std::string_view kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "invalid argument";
    case ErrorKind::kNotFound:
      return "not found";
    case ErrorKind::kIo:
      return "io";
    case ErrorKind::kCorrupt:
      return "corrupt";
    case ErrorKind::kResources:
      return "resources";
    case ErrorKind::kTimeout:
      return "timeout";
    case ErrorKind::kWorkerLost:
      return "worker lost";
    case ErrorKind::kUserCode:
      return "user code";
    case ErrorKind::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

std::string errno_text(int error) { return std::generic_category().message(error); }

void throw_errno(const std::string& what) {
  int error = errno;
  throw Error(ErrorKind::kIo, str(what, ": ", errno_text(error)));
}

std::string demangle(const char* mangled) {
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  std::string text = status == 0 ? name.get() : mangled;
  const std::string anonymous = "(anonymous namespace)::";
  for (size_t at; (at = text.find(anonymous)) != std::string::npos;)
    text.erase(at, anonymous.size());
  return text;
}

void check_failed(const char* file, int line, const char* condition, const std::string& why) {
  std::fprintf(stderr, "manta: internal error at %s:%d: %s (%s)\n", file, line, why.c_str(),
               condition);
  std::abort();
}

}  // namespace manta
