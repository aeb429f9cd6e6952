#include "src/dataset/build_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/dataset/step_numbers.h"
#include "src/dataset/truth_reader.h"
#include "src/reconstruct/log_attach.h"
#include "src/trace/trace_file.h"

namespace teller::dataset {
namespace fs = std::filesystem;
namespace {

using reconstruct::Alignment;
using reconstruct::CollectiveRecord;
using trace::TraceReader;

constexpr const char* kTraceFile = "trace.h5";
constexpr const char* kTruthFile = "truth.jsonl";

std::vector<CollectiveRecord> AllCollectives(const TraceReader& reader) {
  std::vector<CollectiveRecord> records;
  for (int i = 0; i < static_cast<int>(reader.processes().size()); ++i) {
    const auto more = reconstruct::CollectivesOf(i, reader.ReadEvents(i));
    records.insert(records.end(), more.begin(), more.end());
  }
  return records;
}

NodeClocks ClocksByNode(const TraceReader& reader, const Alignment& alignment) {
  NodeClocks clocks;
  for (std::size_t i = 0; i < reader.processes().size(); ++i) {
    if (alignment.processes[i].method == reconstruct::ClockMethod::kUnrelated) continue;
    const trace::ProcessInfo& process = reader.processes()[i];
    clocks.emplace(process.node.empty() ? process.host : process.node, alignment.processes[i]);
  }
  return clocks;
}

// Counters of the collection that a reader of steps should know, beside those of the
// reconstruction.
void AddStats(const TraceReader& reader, const reconstruct::BuildStats& build, StepsFile& steps) {
  if (!reader.complete()) steps.stats.emplace_back("trace_incomplete", 1);
  for (const trace::Stat& stat : reader.ReadStats()) {
    if (stat.severity == trace::Severity::kDataLoss && stat.count > 0)
      steps.stats.emplace_back("trace_" + stat.name, stat.count);
  }
  for (const auto& [name, count] : build) steps.stats.emplace_back(name, count);
}

// A step range that holds all of a process, on its busiest thread.
trace::Event WholeTrace(const trace::EventTable& events, StringId name) {
  trace::Event whole{.begin_ns = INT64_MAX, .end_ns = INT64_MIN, .name = name};
  std::map<uint32_t, int64_t> by_thread;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if ((events.flags[i] & trace::kFlagNoTiming) != 0) continue;
    whole.begin_ns = std::min(whole.begin_ns, events.begin_ns[i]);
    whole.end_ns = std::max({whole.end_ns, events.begin_ns[i], events.end_ns[i]});
    if ((events.flags[i] & trace::kFlagOnDevice) == 0) ++by_thread[events.track[i]];
  }
  const auto busiest =
      std::ranges::max_element(by_thread, {}, [](const auto& entry) { return entry.second; });
  if (busiest != by_thread.end()) whole.track = busiest->first;
  return whole;
}

// Every process as one step. Its name is none of the trace's own.
reconstruct::RunForest WholeTraceAsStep(const TraceReader& reader, const Alignment& alignment,
                                        const std::vector<CollectiveRecord>& records,
                                        reconstruct::BuildStats& stats) {
  StringInterner strings = reader.strings();
  const StringId name = strings.Intern("(trace)");
  reconstruct::RunBuilder builder(strings, {.step_rules = {{.expression = R"(\(trace\))"}}});
  for (std::size_t i = 0; i < reader.processes().size(); ++i) {
    trace::EventTable events = reader.ReadEvents(static_cast<int>(i));
    if (events.size() == 0) continue;
    events.Append(WholeTrace(events, name));  // last: the records' positions stay
    builder.AddProcess(static_cast<int>(i), reader.processes()[i], events, alignment.processes[i]);
  }
  reconstruct::RunForest run = builder.Finish(records, reconstruct::MatchCollectives(records));
  stats = builder.stats();
  stats["whole_trace_is_one_step"] = 1;
  return run;
}

// Everything but labels and numbers.
StepsFile BuildForests(const TraceReader& reader, const Alignment& alignment,
                       const std::vector<CollectiveRecord>& records,
                       const BuildStepsOptions& options, bool whole_trace) {
  reconstruct::RunBuilder builder(reader.strings(), options.build);
  for (std::size_t i = 0; i < reader.processes().size(); ++i) {
    builder.AddProcess(static_cast<int>(i), reader.processes()[i],
                       reader.ReadEvents(static_cast<int>(i)), alignment.processes[i]);
  }
  StepsFile steps;
  steps.run = builder.Finish(records, reconstruct::MatchCollectives(records));
  reconstruct::BuildStats stats = builder.stats();
  if (steps.run.steps.empty() && whole_trace)
    steps.run = WholeTraceAsStep(reader, alignment, records, stats);
  steps.run.run_id = reader.meta().run_id;
  steps.run.workload = reader.meta().workload;
  steps.engine = reader.meta().workload;
  steps.clock_aligned = alignment.aligned;
  steps.clock_residual_ns = static_cast<double>(alignment.residual_ns);
  steps.forest.assign(steps.run.steps.size(), 1);
  reconstruct::AttachLogs(reader.ReadLogs(), reader.ReadClock(), reader.processes(), alignment,
                          steps.run, stats);
  AddStats(reader, stats, steps);
  return steps;
}

void AddNumbers(StepsFile& steps) {
  std::vector<bool> calibration;
  for (const StepLabel& label : steps.labels)
    calibration.push_back((label.reasons & kReasonCalibration) != 0);
  StepNumbers numbers = ComputeStepNumbers(steps.run.steps, calibration);
  steps.number_names = std::move(numbers.names);
  steps.numbers = std::move(numbers.rows);
}

StepLabel Unlabelled(const reconstruct::StepForest& step) {
  StepLabel label;
  label.recorded_ns.assign(step.ranks.size(), 0);
  return label;
}

}  // namespace

StepsFile BuildSteps(const fs::path& run_folder, const BuildStepsOptions& options) {
  const fs::path trace_path = run_folder / kTraceFile, truth_path = run_folder / kTruthFile;
  const Truth truth = ReadTruth(truth_path);
  const TraceReader reader(trace_path);
  const std::vector<CollectiveRecord> records = AllCollectives(reader);
  const Alignment alignment =
      reconstruct::AlignClocks(reader.processes(), reader.ReadClock(), reader.ReadProbes(), records,
                               reader.strings(), options.align);
  StepsFile steps = BuildForests(reader, alignment, records, options, /*whole_trace=*/false);
  if (steps.run.steps.empty()) {
    throw DataError(fmt::format(
        "{}: no event is a step of an engine that is known; name the step range in the workload's "
        "'steps' part",
        trace_path.string()));
  }
  LabelStats stats;
  steps.labels =
      LabelSteps(steps.run, truth, ClocksByNode(reader, alignment), stats, options.labels);
  if (!truth.complete) stats["truth_incomplete"] = 1;
  steps.stats.insert(steps.stats.end(), stats.begin(), stats.end());
  steps.inputs = {{kTraceFile, HashFileHex(trace_path)}, {kTruthFile, HashFileHex(truth_path)}};
  AddNumbers(steps);
  return steps;
}

StepsFile BuildStepsOfTrace(const fs::path& trace_file, const BuildStepsOptions& options) {
  const TraceReader reader(trace_file);
  const std::vector<CollectiveRecord> records = AllCollectives(reader);
  const Alignment alignment =
      reconstruct::AlignClocks(reader.processes(), reader.ReadClock(), reader.ReadProbes(), records,
                               reader.strings(), options.align);
  StepsFile steps = BuildForests(reader, alignment, records, options, /*whole_trace=*/true);
  for (const reconstruct::StepForest& step : steps.run.steps)
    steps.labels.push_back(Unlabelled(step));
  steps.inputs = {{trace_file.filename().string(), HashFileHex(trace_file)}};
  AddNumbers(steps);
  return steps;
}

void BuildStepsFile(const fs::path& run_folder, const fs::path& output,
                    const BuildStepsOptions& options, bool force) {
  WriteSteps(output, BuildSteps(run_folder, options), force);
}

}  // namespace teller::dataset
