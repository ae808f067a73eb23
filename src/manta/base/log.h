#pragma once

namespace manta {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// Manta writes its own messages to standard error, a line each. Those below `level` are left out.
/// Default: kWarning, so that a program's own output stays readable.
void set_log_level(LogLevel level);

}  // namespace manta
