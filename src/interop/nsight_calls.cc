#include <string_view>

#include "src/interop/nsight_tables.h"

namespace teller::interop {
namespace {

void ReadApiCalls(NsightReport& report, std::string_view table) {
  if (!report.Begin(table)) return;
  SqliteRows rows =
      report.database().Read(table, {"start", "end", "globalTid", "nameId", "correlationId"});
  while (rows.Next()) {
    trace::Event event{.layer = trace::Layer::kHostApi, .source = trace::Source::kImport};
    if (!report.SetTimes(rows, event, false)) continue;
    const int64_t thread = rows.Integer(2).value_or(0);
    NsightProcess& process = report.ProcessOf(ProcessKey(thread));
    const NsightString& name = report.StringOf(rows.Integer(3));
    event.name = name.id;
    event.kind = name.api_kind;
    event.track = process.tracks.Thread(ThreadNumber(thread));
    event.correlation = NsightReport::Correlation(rows, 4);
    report.RememberLauncher(event.correlation, ProcessKey(thread));
    report.Add(process, event);
  }
}

void ReadLibraryCalls(NsightReport& report, std::string_view table) {
  if (!report.Begin(table)) return;
  SqliteRows rows = report.database().Read(table, {"start", "end", "globalTid", "nameId"});
  while (rows.Next()) {
    trace::Event event{.layer = trace::Layer::kHostApi,
                       .kind = trace::Kind::kApiOther,
                       .source = trace::Source::kImport};
    if (!report.SetTimes(rows, event, false)) continue;
    const int64_t thread = rows.Integer(2).value_or(0);
    NsightProcess& process = report.ProcessOf(ProcessKey(thread));
    event.name = report.StringOf(rows.Integer(3)).id;
    event.track = process.tracks.Thread(ThreadNumber(thread));
    report.Add(process, event);
  }
}

}  // namespace

void ReadNsightRuntime(NsightReport& report) {
  ReadApiCalls(report, "CUPTI_ACTIVITY_KIND_RUNTIME");
  ReadApiCalls(report, "CUPTI_ACTIVITY_KIND_DRIVER");
}

void ReadNsightLibraries(NsightReport& report) {
  ReadLibraryCalls(report, "CUBLAS_EVENTS");
  ReadLibraryCalls(report, "CUDNN_EVENTS");
}

}  // namespace teller::interop
