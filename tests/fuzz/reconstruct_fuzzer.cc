// What stands behind the importers: clocks, matched collectives, trees and steps of any imported
// trace.
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/core/error.h"
#include "src/interop/kineto.h"
#include "src/reconstruct/run_builder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace teller;
  interop::TextStream in(std::string_view(reinterpret_cast<const char*>(data), size));
  interop::MemoryTrace trace;
  interop::ImportLog log;
  try {
    interop::ImportKineto(in, 0, {}, trace, log);
  } catch (const DataError&) {
    return 0;
  }
  std::vector<reconstruct::CollectiveRecord> records;
  for (int i = 0; i < static_cast<int>(trace.processes.size()); ++i) {
    const auto found = reconstruct::CollectivesOf(i, trace.events[static_cast<std::size_t>(i)]);
    records.insert(records.end(), found.begin(), found.end());
  }
  const auto alignment =
      reconstruct::AlignClocks(trace.processes, trace.clock, trace.probes, records, trace.strings);
  reconstruct::RunBuilder builder(trace.strings);
  for (std::size_t i = 0; i < trace.processes.size(); ++i) {
    builder.AddProcess(static_cast<int>(i), trace.processes[i], trace.events[i],
                       alignment.processes[i]);
  }
  builder.Finish(records, reconstruct::MatchCollectives(records));
  return 0;
}
