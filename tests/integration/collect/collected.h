#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "src/trace/trace_file.h"

namespace teller::testing_support {

/// How a command line of `teller collect` ended.
struct Ran {
  int exit_code = -1;
  std::string out, err;
};

/// Runs a shell command line, stdout and stderr apart.
Ran RunShell(const std::string& command_line);

/// 'teller collect -o FILE OPTIONS -- COMMAND', as a shell command line.
std::string CollectLine(const std::filesystem::path& file, const std::string& options,
                        const std::string& command);

/// A trace file in memory, with its strings spelled out.
struct Collected {
  explicit Collected(const std::filesystem::path& file);

  /// Events of every process by name.
  std::map<std::string, int> CountByName() const;
  /// All events with this name, of every process, in order of begins.
  std::vector<trace::Event> Named(const std::string& name) const;
  int64_t Stat(const std::string& name) const;
  std::string_view Text(StringId id) const { return reader.strings().View(id); }

  trace::TraceReader reader;
  std::vector<trace::EventTable> events;  ///< by process
};

}  // namespace teller::testing_support
