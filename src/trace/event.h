#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/ids.h"
#include "src/core/interner.h"

namespace teller::trace {

/// Layers of the stack, top to bottom; numbers as in src/abi/record.h and docs/schema/trace.md.
enum class Layer : uint8_t { kEngine = 0, kBackend = 1, kHostApi = 2, kDevice = 3, kComm = 4 };
inline constexpr int kLayerCount = 5;

/// What an event is within its layer; numbers as in src/abi/record.h.
enum class Kind : uint8_t {
  kRange = 0,
  kStartEnd = 1,
  kMark = 2,      // engine
  kOperator = 3,  // backend
  kLaunch = 4,
  kCopyCall = 5,
  kSyncCall = 6,
  kApiOther = 7,  // host_api
  kKernel = 8,
  kMemcpy = 9,
  kMemset = 10,
  kGraph = 11,
  kSync = 12,  // device
  kCollective = 13,
  kPointToPoint = 14  // comm
};
inline constexpr int kKindCount = 15;

/// Who saw the event.
enum class Source : uint8_t { kNvtx = 0, kTorch = 1, kCupti = 2, kCpuStream = 3, kImport = 4 };
inline constexpr int kSourceCount = 5;

/// Bits of Event::flags.
inline constexpr uint16_t kFlagOpen =
    1u << 1;  ///< never ended; end_ns is when the process was last seen
inline constexpr uint16_t kFlagOtherThreadEnd = 1u
                                                << 2;  ///< ended on another thread than it began on
inline constexpr uint16_t kFlagOnDevice = 1u << 3;  ///< `track` is a device stream, not a thread id
inline constexpr uint16_t kFlagJoined = 1u
                                        << 5;  ///< the host-side record of a collective that also
                                               ///< has a device-side one: kept, but counted once
inline constexpr uint16_t kFlagNoTiming = 1u << 6;  ///< begin and end are unknown (0 in the source)

/// One thing that happened. Times are nanoseconds on the trace clock (CLOCK_MONOTONIC of the
/// process's node).
struct Event {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  StringId name = kNoString;
  Layer layer = Layer::kEngine;
  Kind kind = Kind::kRange;
  uint32_t track = 0;            ///< thread id, or device stream where kFlagOnDevice is set
  uint64_t correlation = 0;      ///< joins host call and device record of one process; 0: none
  uint64_t graph_node = 0;       ///< 0: none
  StringId comm = kNoString;     ///< communicator of a comm event
  int32_t sequence = -1;         ///< of a collective in its communicator
  int32_t peer = -1;             ///< rank of a point-to-point peer
  int64_t bytes = -1;            ///< of a copy or comm event
  StringId request = kNoString;  ///< request ids of an engine event, comma-separated
  Source source = Source::kNvtx;
  uint16_t flags = 0;

  bool on_device() const { return (flags & kFlagOnDevice) != 0; }
};

/// Events of one process, a vector per field, all of the same length.
struct EventTable {
  std::vector<int64_t> begin_ns, end_ns;
  std::vector<StringId> name;
  std::vector<Layer> layer;
  std::vector<Kind> kind;
  std::vector<uint32_t> track;
  std::vector<uint64_t> correlation, graph_node;
  std::vector<StringId> comm;
  std::vector<int32_t> sequence, peer;
  std::vector<int64_t> bytes;
  std::vector<StringId> request;
  std::vector<Source> source;
  std::vector<uint16_t> flags;

  std::size_t size() const { return begin_ns.size(); }
  void Append(const Event& event);
  Event At(std::size_t index) const;
  void Reserve(std::size_t count);
  void Clear();
};

/// Who a process is. The environment is never kept.
struct ProcessInfo {
  RankId rank = kNoRank;
  std::string node;  ///< name of the node it ran on
  std::string host;
  uint32_t pid = 0;
  uint32_t parent_pid = 0;
  std::string comm;     ///< the kernel's short name
  std::string command;  ///< command line, cut at 512 bytes, secrets masked
};

/// One line of a log. Times: when the collector read it (trace clock of the collector's node) and
/// the same moment in realtime; the time the line itself states is left to reconstruct/.
struct LogLine {
  int64_t read_ns = 0;
  int64_t realtime_ns = 0;
  int32_t process = -1;       ///< index into the trace's processes; -1: not known
  StringId file = kNoString;  ///< 'stdout', 'stderr' or the file's path relative to the run
  uint64_t offset = 0;        ///< of the line's first byte in that file
  std::string text;           ///< without the line end, secrets masked
};

/// One clock reading of one process.
struct ClockTriple {
  int32_t process = -1;
  uint64_t ticks = 0;
  int64_t monotonic_ns = 0;
  int64_t realtime_ns = 0;
};

/// One exchange between the collectors of two nodes, for clock alignment; each time on its own
/// node's clock.
struct ClockProbe {
  std::string from, to;
  int64_t sent_ns = 0, received_ns = 0, answered_ns = 0, returned_ns = 0;
};

/// A Stat whose name begins so counts what an importer found under the source's own category or
/// table name, for example 'source:cpu_op'; `teller info` shows it under `source_counts`, not among
/// the counters.
inline constexpr std::string_view kSourceCountPrefix = "source:";

enum class Severity : uint8_t { kInfo = 0, kError = 1, kDataLoss = 2 };

/// One counter of what was dropped, malformed or unmatched, and of what the collection itself cost.
struct Stat {
  std::string name;  ///< snake_case reason, for example 'dropped_no_segment'
  std::string unit;  ///< 'events', 'lines', 'ns', ...
  Severity severity = Severity::kInfo;
  int64_t count = 0;
};

/// Root attributes of a trace file.
struct TraceMeta {
  std::string run_id;
  std::string clock = "monotonic";  ///< name of the trace clock
  std::vector<std::string> hosts;
  std::string config_yaml;
  std::string workload;  ///< 'reference', 'vllm', 'command', 'import:kineto', ...
};

std::string_view LayerName(Layer layer);     ///< 'engine', 'backend', 'host_api', 'device', 'comm'
std::string_view SourceName(Source source);  ///< 'nvtx', 'torch', 'cupti', 'cpu_stream', 'import'
std::string_view KindName(
    Kind kind);  ///< 'range', 'operator', 'launch', 'kernel', 'collective', ...

}  // namespace teller::trace
