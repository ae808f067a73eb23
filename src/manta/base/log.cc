#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "manta/base/log_internal.h"
#include "manta/base/status_line_internal.h"

namespace manta {
namespace {

spdlog::logger& logger() {
  // Leaked on purpose: threads may still log while static objects are destroyed.
  static spdlog::logger* instance = [] {
    auto* created =
        new spdlog::logger("manta", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    created->set_pattern("%H:%M:%S.%e manta %^%l%$: %v");
    created->set_level(spdlog::level::warn);
    return created;
  }();
  return *instance;
}

void write(spdlog::level::level_enum level, const std::string& message) {
  if (!logger().should_log(level)) return;
  AboveStatusLines above;
  logger().log(level, "{}", message);
}

}  // namespace

void set_log_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return logger().set_level(spdlog::level::debug);
    case LogLevel::kInfo:
      return logger().set_level(spdlog::level::info);
    case LogLevel::kWarning:
      return logger().set_level(spdlog::level::warn);
    case LogLevel::kError:
      return logger().set_level(spdlog::level::err);
    case LogLevel::kOff:
      return logger().set_level(spdlog::level::off);
  }
}

void log_debug(const std::string& message) { write(spdlog::level::debug, message); }
void log_info(const std::string& message) { write(spdlog::level::info, message); }
void log_warning(const std::string& message) { write(spdlog::level::warn, message); }
void log_error(const std::string& message) { write(spdlog::level::err, message); }

}  // namespace manta
