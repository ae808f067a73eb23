#pragma once

#include <string>

namespace manta {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// What is below `level` is not written. Default: kWarning, so that a program's own output stays
/// readable.
void set_log_level(LogLevel level);

/// One line to standard error, with the time and the level. Safe from any thread.
void log_debug(const std::string& message);
void log_info(const std::string& message);
void log_warning(const std::string& message);
void log_error(const std::string& message);

}  // namespace manta
