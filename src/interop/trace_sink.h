#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "src/core/interner.h"
#include "src/trace/event.h"

namespace teller::interop {

/// A process that an importer put into a sink.
struct ImportedProcess {
  int index = -1;  ///< in the sink
  trace::ProcessInfo info;
};

/// Where an importer puts what it reads. One thread owns a sink.
class TraceSink {
 public:
  virtual ~TraceSink() = default;

  virtual int AddProcess(const trace::ProcessInfo& info) = 0;
  virtual void UpdateProcess(int process, const trace::ProcessInfo& info) = 0;
  virtual StringId Intern(std::string_view text) = 0;
  /// String ids in `events` come from Intern.
  virtual void Append(int process, const trace::EventTable& events) = 0;
  virtual void AppendLogs(const std::vector<trace::LogLine>& lines) = 0;
  virtual void AppendClock(const std::vector<trace::ClockTriple>& triples) = 0;
  virtual void AppendProbes(const std::vector<trace::ClockProbe>& probes) = 0;
};

/// A whole trace in memory: for tests, benchmarks and exporters of small traces.
class MemoryTrace final : public TraceSink {
 public:
  int AddProcess(const trace::ProcessInfo& info) override;
  void UpdateProcess(int process, const trace::ProcessInfo& info) override;
  StringId Intern(std::string_view text) override { return strings.Intern(text); }
  void Append(int process, const trace::EventTable& events) override;
  void AppendLogs(const std::vector<trace::LogLine>& lines) override;
  void AppendClock(const std::vector<trace::ClockTriple>& triples) override;
  void AppendProbes(const std::vector<trace::ClockProbe>& probes) override;

  std::string_view Text(StringId id) const {
    return id == kNoString ? std::string_view{} : strings.View(id);
  }

  StringInterner strings;
  std::vector<trace::ProcessInfo> processes;
  std::vector<trace::EventTable> events;  ///< by process
  std::vector<trace::LogLine> logs;
  std::vector<trace::ClockTriple> clock;
  std::vector<trace::ClockProbe> probes;
};

}  // namespace teller::interop
