#include "src/workload/launch/log_tail.h"

#include <algorithm>
#include <fstream>
#include <vector>

namespace teller::launch {
namespace {

constexpr std::streamoff kTailBytes = 8192;
constexpr std::size_t kLineBytes = 300;

std::string Printable(std::string line) {
  std::erase_if(line, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (line.size() > kLineBytes) line.resize(kLineBytes);
  return line;
}

}  // namespace

std::string LastLine(const std::filesystem::path& log) {
  std::ifstream file(log, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return Printable(last);
}

LogWatch::LogWatch(std::filesystem::path log, std::string text)
    : log_(std::move(log)), text_(std::move(text)) {}

bool LogWatch::Seen() {
  if (seen_) return true;
  std::ifstream file(log_, std::ios::binary);
  if (!file.seekg(offset_)) return false;
  std::vector<char> bytes(65536);
  while (!seen_ &&
         (file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())), file.gcount() > 0)) {
    kept_.append(bytes.data(), static_cast<std::size_t>(file.gcount()));
    offset_ += file.gcount();
    seen_ = kept_.find(text_) != std::string::npos;
    if (kept_.size() > text_.size()) kept_.erase(0, kept_.size() - text_.size());
  }
  return seen_;
}

}  // namespace teller::launch
