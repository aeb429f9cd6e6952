#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace teller::collect {

/// What matters of a program file for whether a library can be preloaded into it.
struct ElfFacts {
  int bits = 0;     ///< 32 or 64
  int machine = 0;  ///< EM_...
  bool has_interpreter = false;
  std::string Describe() const;  ///< '64-bit x86-64'
};

/// Nothing where the file is not readable or no ELF file (a script, for example).
std::optional<ElfFacts> ReadElf(const std::filesystem::path& path);

/// As execvp finds it; nothing where it does not.
std::optional<std::filesystem::path> FindInPath(const std::string& command);

/// Whether the agent can enter `command`, before it is started. Throws UnavailableError where the
/// agent library is no library or of another architecture than the command. Answers a line for
/// people where only output will be recorded: a static binary.
std::optional<std::string> CheckAgentFits(const std::filesystem::path& agent_library,
                                          const std::string& command);

}  // namespace teller::collect
