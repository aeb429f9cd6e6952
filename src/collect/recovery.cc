#include "src/collect/recovery.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/collect/log_follower.h"
#include "src/collect/relay.h"
#include "src/collect/tick_clock.h"
#include "src/collect/trace_assembly.h"
#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/log.h"

namespace teller::collect {

namespace {

constexpr const char* kRecordFile = "COLLECTION.json";
/// For a rate of the time stamp counter that is right to a few parts in a million.
constexpr std::chrono::milliseconds kRateTime(20);

/// Killed between renaming the trace and removing the spool: nothing is left to do.
bool IsWritten(const CollectionRecord& record) {
  if (!std::filesystem::exists(record.output)) return false;
  try {
    const trace::TraceReader reader(record.output);
    return reader.complete() && reader.meta().run_id == record.run_id;
  } catch (const Error&) {
    return false;
  }
}

std::filesystem::path FreeOutput(const CollectionRecord& record) {
  if (!std::filesystem::exists(record.output)) return record.output;
  return record.output.parent_path() / fmt::format("{}-{}{}", record.output.stem().string(),
                                                   record.run_id,
                                                   record.output.extension().string());
}

void RemoveHalfWritten(const CollectionRecord& record) {
  std::error_code ignored;
  std::filesystem::remove(
      record.output.parent_path() /
          fmt::format(".{}.{}.partial", record.output.filename().string(), record.collector_pid),
      ignored);
}

/// Of each stream of the command, the offset behind the begin of its last spooled line.
std::map<std::string, uint64_t> SpooledEnds(const LineSpool& lines) {
  std::map<std::string, uint64_t> ends;
  lines.ForEachBlock([&ends](const std::vector<SpooledLine>& block) {
    for (const SpooledLine& line : block) {
      if (line.node.empty()) ends[line.file] = line.offset + 1;
    }
  });
  return ends;
}

/// What the relay copied of a stream and the collector did not live to spool, from `begin` on.
void SpoolRest(const RelayCopy& copy, const std::string& stream, uint64_t begin, LineSpool& lines) {
  LogFollower follower(copy.text, {.stamps = copy.stamps});
  std::vector<FollowedLine> found;
  const auto spool_found = [&] {
    std::vector<SpooledLine> rest;
    for (FollowedLine& line : found) {
      if (line.offset < begin) continue;
      rest.push_back(
          {line.read_ns, line.realtime_ns, line.offset, "", stream, std::move(line.text)});
    }
    lines.Append(rest);
  };
  do {  // a piece at a time
    found.clear();
    follower.Poll(found);
    spool_found();
  } while (!found.empty());
  follower.Finish(found);
  spool_found();
}

uint64_t WriteTrace(const CollectionRecord& record, const std::filesystem::path& spool_dir,
                    const std::filesystem::path& output) {
  const TickRate rate;
  std::this_thread::sleep_for(kRateTime);
  std::vector<std::string> problems;
  std::vector<TracedProcess> processes =
      TracedProcess::Recover(record.run_dir, spool_dir, problems);
  uint64_t records = 0;
  for (TracedProcess& process : processes) {
    process.Drain(PoolReader::Depth::kEverything);
    records += process.spool().size();
  }
  LineSpool lines(spool_dir / "lines");
  const std::map<std::string, uint64_t> ends = SpooledEnds(lines);
  for (const std::string stream : {"stdout", "stderr"}) {
    const auto end = ends.find(stream);
    SpoolRest(RelayCopy::In(spool_dir, stream), stream, end == ends.end() ? 0 : end->second, lines);
  }
  std::vector<trace::Stat> stats;
  Count(stats, "recovered", "collections", trace::Severity::kInfo, 1);
  Count(stats, "unusable_pool", "processes", trace::Severity::kDataLoss, problems.size());
  AtomicFile file(output);
  const Assembled assembled = AssembleTrace(file.path(), {.run_id = record.run_id,
                                                          .workload = record.workload,
                                                          .config_yaml = record.config_yaml,
                                                          .ns_per_tick = rate.NsPerTick(),
                                                          .processes = processes,
                                                          .lines = lines,
                                                          .stats = stats});
  file.Commit();
  for (const std::string& note : assembled.notes) LogWarning(note);
  LogProblems(problems);
  return records;
}

}  // namespace

void CollectionRecord::WriteIn(const std::filesystem::path& spool_dir) const {
  const nlohmann::json json = {{"schema_version", "1.0"},       {"run_id", run_id},
                               {"run_dir", run_dir.string()},   {"output", output.string()},
                               {"workload", workload},          {"config_yaml", config_yaml},
                               {"collector_pid", collector_pid}};
  WriteFileAtomically(spool_dir / kRecordFile, json.dump(2) + "\n");
}

CollectionRecord CollectionRecord::ReadFrom(const std::filesystem::path& spool_dir) {
  const std::filesystem::path path = spool_dir / kRecordFile;
  const auto json = nlohmann::json::parse(ReadFile(path, 1u << 20), nullptr, false);
  try {
    return {.run_id = json.at("run_id"),
            .run_dir = std::filesystem::path(json.at("run_dir").get<std::string>()),
            .output = std::filesystem::path(json.at("output").get<std::string>()),
            .workload = json.at("workload"),
            .config_yaml = json.at("config_yaml"),
            .collector_pid = json.at("collector_pid")};
  } catch (const nlohmann::json::exception&) {
    throw DataError(fmt::format("{}: not the record of a collection", path.string()));
  }
}

std::string RecoverCollection(const std::filesystem::path& spool_dir, bool dry_run) {
  std::error_code ignored;
  if (!std::filesystem::exists(spool_dir / kRecordFile)) {  // killed before anything was started
    if (!dry_run) std::filesystem::remove_all(spool_dir, ignored);
    return "nothing was recorded";
  }
  const CollectionRecord record = CollectionRecord::ReadFrom(spool_dir);
  const bool written = IsWritten(record);
  const std::filesystem::path output = written ? record.output : FreeOutput(record);
  if (dry_run) return fmt::format("would be written to {}", output.string());
  const uint64_t records = written ? 0 : WriteTrace(record, spool_dir, output);
  RemoveHalfWritten(record);
  std::filesystem::remove_all(spool_dir, ignored);
  return written ? fmt::format("was written: {}", output.string())
                 : fmt::format("written to {}: {} records", output.string(), records);
}

std::vector<std::string> FindLeftovers(const std::filesystem::path& output) {
  std::vector<std::string> run_ids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::absolute(output).parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(".") || !name.ends_with(".spool")) continue;
    try {
      const CollectionRecord record = CollectionRecord::ReadFrom(entry.path());
      const bool gone = kill(record.collector_pid, 0) != 0 && errno == ESRCH;
      if (gone) run_ids.push_back(record.run_id);
    } catch (const Error&) {  // being made, or of another program
    }
  }
  return run_ids;
}

}  // namespace teller::collect
