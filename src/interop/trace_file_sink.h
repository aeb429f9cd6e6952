#pragma once

#include <vector>

#include "src/interop/trace_sink.h"
#include "src/trace/trace_file.h"

namespace teller::interop {

/// A sink that writes to a trace file.
class TraceFileSink final : public TraceSink {
 public:
  explicit TraceFileSink(trace::TraceWriter& writer) : writer_(&writer) {}

  int AddProcess(const trace::ProcessInfo& info) override { return writer_->AddProcess(info); }
  void UpdateProcess(int process, const trace::ProcessInfo& info) override {
    writer_->UpdateProcess(process, info);
  }
  StringId Intern(std::string_view text) override { return writer_->Intern(text); }
  void Append(int process, const trace::EventTable& events) override {
    writer_->Append(process, events);
  }
  void AppendLogs(const std::vector<trace::LogLine>& lines) override { writer_->AppendLogs(lines); }
  void AppendClock(const std::vector<trace::ClockTriple>& triples) override {
    writer_->AppendClock(triples);
  }
  void AppendProbes(const std::vector<trace::ClockProbe>& probes) override {
    writer_->AppendProbes(probes);
  }

 private:
  trace::TraceWriter* writer_;
};

}  // namespace teller::interop
