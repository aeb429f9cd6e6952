#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "src/interop/event_class.h"
#include "src/interop/nsight_tables.h"

namespace teller::interop {
namespace {

// Values of eventType in NVTX_EVENTS.
constexpr int64_t kNvtxMark = 34;
constexpr int64_t kNvtxPushPop = 59;
constexpr int64_t kNvtxStartEnd = 60;

/// A range that torch.autograd.profiler.emit_nvtx wrote: 'aten::mm, seq = 12, op_id = 34, sizes =
/// ...'.
std::string_view WithoutTorchSuffix(std::string_view name) {
  constexpr std::array<std::string_view, 4> kSuffixes = {
      ", seq = ", ", op_id = ", ", sizes = ", ", input_op_ids = "};
  for (const std::string_view suffix : kSuffixes) name = name.substr(0, name.find(suffix));
  return name;
}

void ClassifyRange(std::string_view name, bool has_torch_suffix, const NsightProcess& process,
                   trace::Event& event) {
  const bool is_operator =
      has_torch_suffix || name.starts_with("aten::") || name.starts_with("torch::");
  if (IsCommRange(name)) {
    event.layer = trace::Layer::kComm;
    event.kind = CommKind(name);
    // The range is the call that enqueues; where the process has kernels of NCCL, they are the
    // transfer.
    if (process.has_comm_kernels) event.flags |= trace::kFlagJoined;
  } else if (name.starts_with("nccl")) {
    event.layer = trace::Layer::kHostApi;
    event.kind = trace::Kind::kApiOther;
  } else if (is_operator) {
    event.layer = trace::Layer::kBackend;
    event.kind = trace::Kind::kOperator;
  }
}

/// Reads NVTX_EVENTS.
class NvtxTable {
 public:
  explicit NvtxTable(NsightReport& report) : report_(report) {}

  void Read();

 private:
  void ReadRow(const SqliteRows& rows);

  NsightReport& report_;
  std::vector<std::pair<int64_t, trace::Event>>
      open_ranges_;  ///< by process; they end with the session
};

void NvtxTable::Read() {
  constexpr std::string_view kTable = "NVTX_EVENTS";
  if (!report_.Begin(kTable)) return;
  SqliteRows rows = report_.database().Read(
      kTable, {"start", "end", "globalTid", "endGlobalTid", "eventType", "text", "textId"});
  while (rows.Next()) ReadRow(rows);
  report_.log().Count("open_ended", static_cast<int64_t>(open_ranges_.size()));
  for (auto& [key, event] : open_ranges_) {
    event.end_ns = std::max(event.begin_ns, report_.last_ns());
    report_.Add(report_.ProcessOf(key), event);
  }
}

void NvtxTable::ReadRow(const SqliteRows& rows) {
  const int64_t type = rows.Integer(4).value_or(kNvtxPushPop);
  if (type != kNvtxPushPop && type != kNvtxStartEnd && type != kNvtxMark) {
    return report_.log().Count("skipped_nvtx_record");  // names of domains, categories and threads
  }
  trace::Event event{.source = trace::Source::kImport};
  if (!report_.SetTimes(rows, event, true)) return;
  const int64_t thread = rows.Integer(2).value_or(0);
  NsightProcess& process = report_.ProcessOf(ProcessKey(thread));
  // A registered string stands in StringIds.
  const std::string_view text =
      rows.IsNull(5) ? std::string_view(report_.StringOf(rows.Integer(6)).text) : rows.Text(5);
  const std::string_view name = WithoutTorchSuffix(text);
  event.name = report_.Name(name);
  event.track = process.tracks.Thread(ThreadNumber(thread));
  if (type == kNvtxMark) {
    event.kind = trace::Kind::kMark;
    event.flags &= static_cast<uint16_t>(~trace::kFlagOpen);
  } else {
    event.kind = type == kNvtxStartEnd ? trace::Kind::kStartEnd : trace::Kind::kRange;
    ClassifyRange(name, name.size() != text.size(), process, event);
  }
  if (rows.Integer(3) && *rows.Integer(3) != thread) event.flags |= trace::kFlagOtherThreadEnd;
  if ((event.flags & trace::kFlagOpen) != 0) {
    open_ranges_.emplace_back(ProcessKey(thread), event);
  } else {
    report_.Add(process, event);
  }
}

}  // namespace

void ReadNsightNvtx(NsightReport& report) { NvtxTable(report).Read(); }

}  // namespace teller::interop
