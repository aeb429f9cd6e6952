#include "src/interop/import_log.h"

#include <algorithm>
#include <utility>

namespace teller::interop {

void ImportLog::CountSource(std::string_view category, int64_t count) {
  auto found = source_counts_.find(category);
  if (found == source_counts_.end()) found = source_counts_.emplace(category, 0).first;
  found->second += count;
}

void ImportLog::Count(std::string_view reason, int64_t count, trace::Severity severity,
                      std::string_view unit) {
  if (count == 0) return;
  auto found = stats_.find(reason);
  if (found == stats_.end()) {
    trace::Stat stat{.name = std::string(reason), .unit = std::string(unit), .severity = severity};
    found = stats_.emplace(reason, std::move(stat)).first;
  }
  found->second.count += count;
}

void ImportLog::Note(std::string note) {
  if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) {
    notes_.push_back(std::move(note));
  }
}

int64_t ImportLog::CountOf(std::string_view reason) const {
  const auto found = stats_.find(reason);
  return found == stats_.end() ? 0 : found->second.count;
}

std::vector<trace::Stat> ImportLog::Stats() const {
  std::vector<trace::Stat> stats;
  stats.reserve(stats_.size());
  for (const auto& [reason, stat] : stats_) stats.push_back(stat);
  return stats;
}

void ImportLog::Merge(const ImportLog& other) {
  for (const auto& [category, count] : other.source_counts_) CountSource(category, count);
  for (const auto& [reason, stat] : other.stats_) {
    Count(reason, stat.count, stat.severity, stat.unit);
  }
  for (const std::string& note : other.notes_) Note(note);
}

}  // namespace teller::interop
