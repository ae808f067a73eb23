#pragma once

#include <string>

#include "manta/base/log.h"

namespace manta {

/// Each writes one line to standard error, with the time and the level. Any thread may call them.
void log_debug(const std::string& message);
void log_info(const std::string& message);
void log_warning(const std::string& message);
void log_error(const std::string& message);

}  // namespace manta
