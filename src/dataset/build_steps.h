#pragma once

#include <filesystem>

#include "src/dataset/label_steps.h"
#include "src/dataset/steps_file.h"
#include "src/reconstruct/clock.h"
#include "src/reconstruct/run_builder.h"

namespace teller::dataset {

struct BuildStepsOptions {
  reconstruct::BuildOptions build;
  reconstruct::AlignOptions align;
  LabelOptions labels;
};

/// The stage from a run folder (docs/schema/run_folder.md) to steps: clocks aligned, forests of all
/// ranks, log lines attached, labels from truth.jsonl, numbers. Reads trace.h5 twice, one process
/// at a time.
/// @throws DataError where trace.h5 or truth.jsonl is missing or damaged, or the trace has no step
StepsFile BuildSteps(const std::filesystem::path& run_folder,
                     const BuildStepsOptions& options = {});

/// The same for a trace alone, for example one of another tool: every label is negative, and all
/// steps serve as the scale of the numbers. A trace without a step range is one step, '(trace)',
/// from each process's first begin to its last end (counted as `whole_trace_is_one_step`); one
/// without events gives a file without steps.
StepsFile BuildStepsOfTrace(const std::filesystem::path& trace_file,
                            const BuildStepsOptions& options = {});

/// BuildSteps, written to `output`. Throws ConfigError where it exists and `force` is false.
void BuildStepsFile(const std::filesystem::path& run_folder, const std::filesystem::path& output,
                    const BuildStepsOptions& options = {}, bool force = false);

}  // namespace teller::dataset
