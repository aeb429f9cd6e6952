#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "src/interop/nsight_tables.h"

namespace teller::interop {
namespace {

std::string_view CopyName(int64_t kind) {
  constexpr std::array<std::string_view, 13> kNames = {
      "Memcpy",      "Memcpy HtoD",     "Memcpy DtoH",    "Memcpy HtoA", "Memcpy AtoH",
      "Memcpy AtoA", "Memcpy AtoD",     "Memcpy DtoA",    "Memcpy DtoD", "Memcpy HtoH",
      "Memcpy PtoP", "Memcpy UVM HtoD", "Memcpy UVM DtoH"};
  return kind >= 0 && kind < static_cast<int64_t>(kNames.size())
             ? kNames[static_cast<std::size_t>(kind)]
             : kNames[0];
}

std::string_view SyncName(int64_t type) {
  constexpr std::array<std::string_view, 5> kNames = {
      "Synchronization", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
  return type >= 0 && type < static_cast<int64_t>(kNames.size())
             ? kNames[static_cast<std::size_t>(type)]
             : kNames[0];
}

/// Reads a table of device records; `complete(rows, event, process)` sets what the kind of record
/// has of its own, from column 7 on.
template <typename Complete>
void ReadDeviceTable(NsightReport& report, std::string_view table,
                     const std::vector<std::string>& more_columns, trace::Kind kind,
                     Complete complete) {
  if (!report.Begin(table)) return;
  std::vector<std::string> columns = {"start",     "end",           "deviceId",   "streamId",
                                      "globalPid", "correlationId", "graphNodeId"};
  columns.insert(columns.end(), more_columns.begin(), more_columns.end());
  SqliteRows rows = report.database().Read(table, columns);
  while (rows.Next()) {
    trace::Event event{
        .layer = trace::Layer::kDevice, .kind = kind, .source = trace::Source::kImport};
    if (!report.SetTimes(rows, event, false)) continue;
    event.correlation = NsightReport::Correlation(rows, 5);
    event.graph_node = NsightReport::Correlation(rows, 6);
    NsightProcess& process = report.DeviceProcess(rows, 4, event.correlation);
    report.SetStream(rows, 2, process, event);
    complete(rows, event, process);
    report.Add(process, event);
  }
}

void ReadKernels(NsightReport& report) {
  const auto complete = [&report](const SqliteRows& rows, trace::Event& event,
                                  NsightProcess& process) {
    const NsightString& name = report.StringOf(rows.Integer(7) ? rows.Integer(7) : rows.Integer(8));
    event.name = name.id;
    if (!name.is_comm_kernel) return;
    event.layer = trace::Layer::kComm;
    event.kind = name.comm_kind;
    process.has_comm_kernels = true;
  };
  ReadDeviceTable(report, "CUPTI_ACTIVITY_KIND_KERNEL", {"demangledName", "shortName"},
                  trace::Kind::kKernel, complete);
}

void ReadDeviceRecords(NsightReport& report) {
  ReadDeviceTable(report, "CUPTI_ACTIVITY_KIND_MEMCPY", {"copyKind", "bytes"}, trace::Kind::kMemcpy,
                  [&report](const SqliteRows& rows, trace::Event& event, NsightProcess&) {
                    event.name = report.Name(CopyName(rows.Integer(7).value_or(0)));
                    event.bytes = rows.Integer(8).value_or(-1);
                  });
  ReadDeviceTable(report, "CUPTI_ACTIVITY_KIND_MEMSET", {"bytes"}, trace::Kind::kMemset,
                  [&report](const SqliteRows& rows, trace::Event& event, NsightProcess&) {
                    event.name = report.Name("Memset");
                    event.bytes = rows.Integer(7).value_or(-1);
                  });
  ReadDeviceTable(report, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {"syncType"}, trace::Kind::kSync,
                  [&report](const SqliteRows& rows, trace::Event& event, NsightProcess&) {
                    event.name = report.Name(SyncName(rows.Integer(7).value_or(0)));
                  });
  ReadDeviceTable(report, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {}, trace::Kind::kGraph,
                  [&report](const SqliteRows&, trace::Event& event, NsightProcess&) {
                    event.name = report.Name("Graph");
                  });
}

}  // namespace

void ReadNsightDevice(NsightReport& report) {
  ReadKernels(report);
  ReadDeviceRecords(report);
}

}  // namespace teller::interop
