#include "src/core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace teller {
namespace {

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("teller",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%n: %l: %v");
    made->set_level(spdlog::level::info);
    return made;
  }();
  return *logger;
}

}  // namespace

void SetLogLevel(LogLevel level) {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  Logger().set_level(kLevels[static_cast<int>(level)]);
}

void LogDebug(std::string_view message) { Logger().debug(message); }
void LogInfo(std::string_view message) { Logger().info(message); }
void LogWarning(std::string_view message) { Logger().warn(message); }
void LogError(std::string_view message) { Logger().error(message); }

}  // namespace teller
