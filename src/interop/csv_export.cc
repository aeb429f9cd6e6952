#include <fmt/format.h>

#include <string>
#include <string_view>

#include "src/core/interrupt.h"
#include "src/interop/export.h"
#include "src/interop/output_file.h"
#include "src/trace/trace_file.h"

namespace teller::interop {
namespace {

std::string Quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string Line(const trace::ProcessInfo& process, const trace::Event& event,
                 const StringInterner& strings) {
  const auto text = [&](StringId id) {
    return id == kNoString ? std::string() : Quoted(strings.View(id));
  };
  const auto known = [](int64_t value) {
    return value < 0 ? std::string() : std::to_string(value);
  };
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                     known(static_cast<int64_t>(process.rank)), Quoted(process.host),
                     Quoted(process.node), process.pid, trace::LayerName(event.layer),
                     trace::KindName(event.kind), text(event.name), event.begin_ns, event.end_ns,
                     event.track, event.on_device() ? 1 : 0, event.correlation, event.graph_node,
                     text(event.comm), known(event.sequence), known(event.peer), known(event.bytes),
                     text(event.request), event.flags);
}

}  // namespace

ExportReport ExportCsv(const std::filesystem::path& trace, const std::filesystem::path& output) {
  const trace::TraceReader reader(trace);
  OutputFile file(output);
  ExportReport report;
  file.Write(
      "rank,host,node,pid,layer,kind,name,begin_ns,end_ns,track,on_device,correlation,graph_node,"
      "comm,sequence,"
      "peer,bytes,request,flags\n");
  for (int i = 0; i < static_cast<int>(reader.processes().size()); ++i) {
    const trace::EventTable events = reader.ReadEvents(i);
    const trace::ProcessInfo& process = reader.processes()[static_cast<std::size_t>(i)];
    for (std::size_t row = 0; row < events.size(); ++row) {
      if (row % 65536 == 0) ThrowIfInterrupted();
      file.Write(Line(process, events.At(row), reader.strings()));
    }
    report.written_events += static_cast<int64_t>(events.size());
  }
  file.Close();
  return report;
}

}  // namespace teller::interop
