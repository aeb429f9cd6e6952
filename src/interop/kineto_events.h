#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/core/interner.h"
#include "src/interop/import_log.h"
#include "src/interop/import_options.h"
#include "src/interop/trace_sink.h"
#include "src/trace/event.h"

namespace teller::interop {

/// One event of a Chrome trace as the file states it; views live until the next event.
struct ChromeEvent {
  std::string_view phase;  ///< 'X', 'B', 'E', 'i', 's', 'f', 'M', ...
  std::string_view category;
  std::string_view name;
  std::string_view process;   ///< raw token of 'pid', quoted where it is text
  std::string_view thread;    ///< raw token of 'tid'
  std::string_view id;        ///< raw token of 'id'
  std::string_view begin_us;  ///< raw token of 'ts'
  std::string_view duration_us;
  bool has_fields = false;  ///< false: '{}'

  // Of 'args'.
  std::string_view label;  ///< 'name' of a metadata event
  std::string_view correlation, device, stream, bytes, graph_node;
  std::string_view collective, group, element_count, element_type, sequence, destination_rank,
      source_rank;
  std::string_view input_dims, input_types;
};

/// What a Chrome trace of the PyTorch profiler says of itself outside its events.
struct KinetoFileInfo {
  std::optional<int32_t> rank;
  std::optional<int32_t> world_size;
  std::string backend;
  int64_t base_time_ns = 0;
};

/// Turns the events of one Chrome trace file into events of processes. Device records are given to
/// the process that launched them, host-side records of collectives are joined with their kernels.
class KinetoEvents {
 public:
  KinetoEvents(const ImportOptions& options, ImportLog& log) : options_(options), log_(&log) {}

  /// Takes one event; what cannot be used is counted.
  void Add(const ChromeEvent& event);

  /// Ends the file: puts its processes into `sink` and answers them, the main one (with the most
  /// events) first; none where no event could be used.
  std::vector<ImportedProcess> Finish(const KinetoFileInfo& info, std::optional<int32_t> rank,
                                      TraceSink& sink);

  std::size_t size() const { return table_.size(); }

 private:
  enum class Category : uint8_t;
  struct KnownCategory {
    std::string name;
    Category category;
    int64_t count = 0;
  };
  static Category Classify(std::string_view name);
  KnownCategory& FindCategory(std::string_view name);
  KnownCategory& CategoryOf(const ChromeEvent& event);
  void AddMetadata(const ChromeEvent& event);
  void AddRow(const ChromeEvent& event, Category category);
  void CloseRow(const ChromeEvent& event);
  bool SetTimes(const ChromeEvent& event, trace::Event& row);
  bool SetDevice(const ChromeEvent& event, Category category, trace::Event& row);
  void SetHost(const ChromeEvent& event, Category category, trace::Event& row);
  void SetComm(const ChromeEvent& event, trace::Event& row);
  std::string OpenKey(const ChromeEvent& event) const;
  int32_t HostProcess(const ChromeEvent& event);
  StringId InternName(std::string_view name) { return names_.Intern(name); }

  std::size_t MainProcess() const;
  void AssignOwners(std::size_t main);
  void NumberTracks();
  void CloseOpenRows();
  void JoinCollectives();
  std::vector<ImportedProcess> Emit(std::optional<int32_t> rank, std::size_t main, TraceSink& sink);

  ImportOptions options_;
  ImportLog* log_;
  StringInterner names_;
  trace::EventTable table_;
  std::vector<int64_t> thread_;  ///< thread id, or stream
  std::vector<int64_t> device_;  ///< device ordinal of a device record; -1: host
  std::vector<int32_t> owner_;   ///< index into processes_; -1: not known yet
  std::vector<KnownCategory> categories_;
  std::size_t last_category_ = 0;
  std::vector<int64_t> processes_;  ///< pids in order of appearance
  std::vector<int64_t> process_events_;
  std::unordered_map<int64_t, int32_t> process_index_;
  std::unordered_map<int64_t, std::string> process_names_;
  std::unordered_map<std::string, std::vector<std::size_t>>
      open_;  ///< rows that wait for their end
};

}  // namespace teller::interop
