#include "src/collect/log_process.h"

#include <cctype>
#include <optional>

namespace teller::collect {

namespace {

constexpr std::size_t kHeadBytes = 160;  // ids stand at the front of a line

/// The number at the front of `text`; nothing where there is none.
std::optional<uint32_t> NumberAt(std::string_view text) {
  std::size_t digits = 0;
  uint64_t number = 0;
  while (digits < text.size() && digits < 8 &&
         std::isdigit(static_cast<unsigned char>(text[digits])))
    number = number * 10 + static_cast<uint64_t>(text[digits++] - '0');
  if (digits == 0) return std::nullopt;
  return static_cast<uint32_t>(number);
}

/// The process id behind the first `mark`.
std::optional<uint32_t> IdBehind(std::string_view text, std::string_view mark) {
  const std::size_t found = text.find(mark);
  if (found == std::string_view::npos) return std::nullopt;
  return NumberAt(text.substr(found + mark.size()));
}

}  // namespace

void LogProcess::Only::Add(int another) {
  several = several || process >= 0;
  process = another;
}

void LogProcess::Candidates::Add(int process, const trace::ProcessInfo& info) {
  any.Add(process);
  if (info.rank != kNoRank) rank.Add(process);
  by_pid[info.pid].Add(process);
}

int LogProcess::Candidates::Of(std::string_view text) const {
  const std::string_view head = text.substr(0, kHeadBytes);
  for (const std::string_view mark : {"pid=", "pid ", "["}) {
    const auto id = IdBehind(head, mark);
    const auto named = id ? by_pid.find(*id) : by_pid.end();
    if (named != by_pid.end() && !named->second.several) return named->second.process;
  }
  if (rank.process >= 0) return rank.several ? -1 : rank.process;
  return any.several ? -1 : any.process;
}

void LogProcess::Add(int process, const trace::ProcessInfo& info) {
  all_.Add(process, info);
  nodes_[info.node].Add(process, info);
}

int LogProcess::Of(const std::string& node, std::string_view text) const {
  if (node.empty()) return all_.Of(text);
  const auto known = nodes_.find(node);
  return known == nodes_.end() ? -1 : known->second.Of(text);
}

}  // namespace teller::collect
