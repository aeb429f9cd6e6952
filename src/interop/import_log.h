#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/trace/event.h"

namespace teller::interop {

/// What an import found and what it could not use: every category of the source with its count, and
/// every reason for which a record was left out, repaired or interpreted.
class ImportLog {
 public:
  /// A record of the source, by its category, table or type as the source names it.
  void CountSource(std::string_view category, int64_t count = 1);
  /// A record that was left out, repaired or interpreted, by reason (snake_case).
  void Count(std::string_view reason, int64_t count = 1,
             trace::Severity severity = trace::Severity::kInfo, std::string_view unit = "records");
  /// A sentence for the user: how ranks were found, that a file was cut short.
  void Note(std::string note);

  const std::map<std::string, int64_t, std::less<>>& source_counts() const {
    return source_counts_;
  }
  const std::vector<std::string>& notes() const { return notes_; }
  int64_t CountOf(std::string_view reason) const;
  /// Counters by reason, for the trace file.
  std::vector<trace::Stat> Stats() const;
  void Merge(const ImportLog& other);

 private:
  std::map<std::string, int64_t, std::less<>> source_counts_;
  std::map<std::string, trace::Stat, std::less<>> stats_;
  std::vector<std::string> notes_;
};

}  // namespace teller::interop
