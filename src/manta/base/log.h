#pragma once

#include <string>

namespace manta {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// Messages below `level` are not written. Default: kWarning, so that a program's own output stays
/// readable.
void set_log_level(LogLevel level);

/// Each writes one line to standard error, with the time and the level. Any thread may call.
void log_debug(const std::string& message);
void log_info(const std::string& message);
void log_warning(const std::string& message);
void log_error(const std::string& message);

}  // namespace manta
