#include "src/interop/nsight.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "src/core/error.h"
#include "src/interop/log_lines.h"
#include "src/interop/nsight_tables.h"

namespace teller::interop {
namespace {

/// What the processes wrote to stdout and stderr during the capture.
void ReadStreams(NsightReport& report) {
  if (!report.database().HasTable("ProcessStreams") || !report.database().HasTable("StringIds"))
    return;
  SqliteRows rows =
      report.database().Read("ProcessStreams", {"globalPid", "filenameId", "contentId"});
  while (rows.Next()) {
    const std::string file = report.Value(rows.Integer(1));
    const std::string content = report.Value(rows.Integer(2));
    if (content.empty()) continue;
    const auto process = report.processes().find(ProcessKey(rows.Integer(0).value_or(0)));
    const int index = process == report.processes().end() ? -1 : process->second.imported.index;
    LogLines lines(std::filesystem::path(file).filename().string(), index, report.options(),
                   report.sink(), report.log());
    lines.Add(content);
    lines.Finish();
  }
}

void CountOtherTables(NsightReport& report) {
  constexpr std::array<std::string_view, 6> kSkipped = {"CUPTI_ACTIVITY_KIND_OVERHEAD",
                                                        "PROFILER_OVERHEAD",
                                                        "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                                                        "OSRT_API",
                                                        "DIAGNOSTIC_EVENT",
                                                        "GPU_METRICS"};
  for (const std::string_view table : kSkipped) {
    if (!report.database().HasTable(table)) continue;
    const int64_t count = report.database().CountRows(table);
    report.log().CountSource(table, count);
    report.log().Count(fmt::format("skipped_table_{}", table), count);
  }
}

/// The processes that may be ranks.
std::vector<ImportedProcess> Ranked(NsightReport& report) {
  const bool any_device =
      std::any_of(report.processes().begin(), report.processes().end(), [](const auto& entry) {
        return entry.second.first_device != std::numeric_limits<int64_t>::max();
      });
  std::vector<std::pair<int64_t, ImportedProcess>> ranked;
  for (auto& [key, process] : report.processes()) {
    const bool has_device = process.first_device != std::numeric_limits<int64_t>::max();
    if (process.events > 0 && has_device == any_device)
      ranked.emplace_back(process.first_device, process.imported);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ImportedProcess> answer;
  for (const auto& [device, imported] : ranked) answer.push_back(imported);
  return answer;
}

}  // namespace

std::vector<ImportedProcess> ImportNsight(const std::filesystem::path& path,
                                          const ImportOptions& options, TraceSink& sink,
                                          ImportLog& log) {
  NsightReport report(path, options, sink, log);
  ReadNsightRuntime(report);
  ReadNsightDevice(report);
  ReadNsightLibraries(report);
  ReadNsightNvtx(report);
  ReadStreams(report);
  CountOtherTables(report);
  if (report.event_tables() == 0) {
    throw DataError(fmt::format(
        "cannot import {}: a SQLite database without any table of Nsight Systems events; export "
        "the report with 'nsys export --type sqlite'",
        path.string()));
  }
  report.Finish();
  return Ranked(report);
}

}  // namespace teller::interop
