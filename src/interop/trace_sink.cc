#include "src/interop/trace_sink.h"

#include "src/interop/event_columns.h"

namespace teller::interop {
namespace {

template <typename T>
void AppendAll(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

int MemoryTrace::AddProcess(const trace::ProcessInfo& info) {
  processes.push_back(info);
  events.emplace_back();
  return static_cast<int>(processes.size()) - 1;
}

void MemoryTrace::UpdateProcess(int process, const trace::ProcessInfo& info) {
  processes.at(static_cast<std::size_t>(process)) = info;
}

void MemoryTrace::Append(int process, const trace::EventTable& table) {
  VisitColumnPairs(events.at(static_cast<std::size_t>(process)), table,
                   [](auto& to, const auto& from) { AppendAll(to, from); });
}

void MemoryTrace::AppendLogs(const std::vector<trace::LogLine>& lines) { AppendAll(logs, lines); }

void MemoryTrace::AppendClock(const std::vector<trace::ClockTriple>& triples) {
  AppendAll(clock, triples);
}

void MemoryTrace::AppendProbes(const std::vector<trace::ClockProbe>& added) {
  AppendAll(probes, added);
}

}  // namespace teller::interop
