#include "src/dataset/build_steps.h"

#include <fmt/format.h>

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

// Everything but labels and numbers.
StepsFile BuildForests(const TraceReader& reader, const Alignment& alignment,
                       const std::vector<CollectiveRecord>& records,
                       const BuildStepsOptions& options) {
  reconstruct::RunBuilder builder(reader.strings(), options.build);
  for (std::size_t i = 0; i < reader.processes().size(); ++i) {
    builder.AddProcess(static_cast<int>(i), reader.processes()[i],
                       reader.ReadEvents(static_cast<int>(i)), alignment.processes[i]);
  }
  StepsFile steps;
  steps.run = builder.Finish(records, reconstruct::MatchCollectives(records));
  steps.run.run_id = reader.meta().run_id;
  steps.run.workload = reader.meta().workload;
  steps.engine = reader.meta().workload;
  steps.clock_aligned = alignment.aligned;
  steps.clock_residual_ns = static_cast<double>(alignment.residual_ns);
  steps.forest.assign(steps.run.steps.size(), 1);
  reconstruct::BuildStats stats = builder.stats();
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
  StepsFile steps = BuildForests(reader, alignment, records, options);
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
  StepsFile steps = BuildForests(reader, alignment, records, options);
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
