#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace teller::reconstruct {

/// A log line taken apart. Views refer to the line given.
struct ParsedLine {
  std::string_view
      process;  ///< 'EngineCore pid=12', 'Worker_TP0': the prefix in parentheses, empty: none
  std::string_view level;     ///< 'INFO', 'WARNING', ..., empty: not said
  std::string_view time;      ///< as written, empty: none
  std::string_view location;  ///< 'loggers.py:118' or 'loggers.py', empty: none
  std::string_view message;
};

/// Takes vLLM's and the reference service's format ('(EngineCore pid=12) INFO 12-01 12:00:00
/// [loggers.py:118] text'), uvicorn's ('INFO:     text') and torchrun's prefix ('[rank0]: text')
/// apart; what fits none is all message. Colour codes and what a carriage return overwrote must be
/// gone (CleanLine). Linear in the line's length.
ParsedLine ParseLine(std::string_view line);

/// Without ANSI colour codes and other control bytes; of a progress bar redrawn with carriage
/// returns, its last state.
std::string CleanLine(std::string_view line);

/// The line as a model may see it: level, file without line number, message; times, durations,
/// rates, percentages, sizes, addresses and ids masked ('<time>', '<duration>', '<rate>',
/// '<percent>', '<size>', '<address>', '<id>', '<n>'). At most 512 bytes. docs/logs.md has the
/// table that the tests run.
std::string MaskLine(const ParsedLine& line);

/// Request ids in a message: words such as 'cmpl-...', 'chatcmpl-...', and what follows 'request'
/// or 'req'.
std::vector<std::string_view> RequestIds(std::string_view message);

}  // namespace teller::reconstruct
