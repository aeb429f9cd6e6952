#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace teller::launch {

/// The last line with text in a log, at most 300 bytes of it, without control characters; empty
/// where there is none.
std::string LastLine(const std::filesystem::path& log);

/// Looks for a text in a log that grows; each call reads what is new. A text torn between two reads
/// is found.
class LogWatch {
 public:
  LogWatch(std::filesystem::path log, std::string text);
  bool Seen();

 private:
  std::filesystem::path log_;
  std::string text_;
  std::streamoff offset_ = 0;
  std::string kept_;
  bool seen_ = false;
};

}  // namespace teller::launch
