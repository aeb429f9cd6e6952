#include "src/interop/import_file.h"

#include <string>

#include "src/core/atomic_file.h"
#include "src/interop/importer.h"
#include "src/interop/trace_file_sink.h"
#include "src/trace/trace_file.h"

namespace teller::interop {
namespace {

std::vector<trace::Stat> FileStats(const ImportLog& log) {
  std::vector<trace::Stat> stats = log.Stats();
  for (const auto& [category, count] : log.source_counts()) {
    stats.push_back({.name = std::string(trace::kSourceCountPrefix) + category,
                     .unit = "records",
                     .count = count});
  }
  return stats;
}

}  // namespace

ImportLog ImportToFile(const std::vector<std::filesystem::path>& inputs,
                       const std::filesystem::path& output, bool force,
                       const ImportOptions& options) {
  AtomicFile file(output, force);
  const ImportPlan plan = PlanImport(inputs);
  trace::TraceWriter writer(file.path(), plan.meta);
  TraceFileSink sink(writer);
  ImportLog log = RunImport(plan, options, sink);
  writer.SetStats(FileStats(log));
  writer.Close();
  file.Commit();
  return log;
}

}  // namespace teller::interop
