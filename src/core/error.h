#pragma once

#include <stdexcept>
#include <string>

namespace teller {

/// What a program of ours returns to its caller (docs/design.md, section 12).
enum class ExitCode { kDone = 0, kFailed = 1, kBadInput = 2, kCheckFailed = 3, kUnavailable = 4 };

/// Root of everything we throw. The message is one line: what was tried, on what, what was found,
/// what to do.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::kFailed)
      : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// A configuration or a command line that cannot be used; the message names file, line and column.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(message, ExitCode::kBadInput) {}
};

/// An input file that is missing, foreign, truncated or inconsistent.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(message, ExitCode::kBadInput) {}
};

/// The machine, the engine or a process failed while we were running.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(message, ExitCode::kFailed) {}
};

/// A check that was asked for did not hold.
class CheckError : public Error {
 public:
  explicit CheckError(const std::string& message) : Error(message, ExitCode::kCheckFailed) {}
};

/// A feature, device, program or package that is needed is absent here.
class UnavailableError : public Error {
 public:
  explicit UnavailableError(const std::string& message) : Error(message, ExitCode::kUnavailable) {}
};

/// Ends the program with the place and the condition: we have a bug. Checked in every build.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace teller

#define TELLER_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::teller::CheckFailed(#condition, __FILE__, __LINE__))
