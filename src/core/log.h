#pragma once

#include <string_view>

namespace teller {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Logs go to stderr, one line each, 'teller: warning: ...'; results never do.
void SetLogLevel(LogLevel level);
void LogDebug(std::string_view message);
void LogInfo(std::string_view message);
void LogWarning(std::string_view message);
void LogError(std::string_view message);

}  // namespace teller
