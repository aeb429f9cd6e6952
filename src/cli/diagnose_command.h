#pragma once

#include <string>
#include <vector>

#include "src/cli/command_line.h"

namespace teller::cli {

struct DiagnoseCommandOptions {
  std::vector<std::string> inputs;  ///< steps.h5, a trace file, a run folder, or others' traces
  std::string baseline;             ///< empty: the run's own quieter steps
  std::string model;
  std::string vocabulary;  ///< that the model was trained with
  int top = 50;            ///< steps that the model sees
  double false_share = 0.1;
  int shown = 10;
  std::string html;    ///< file of the report for a browser; empty: none
  bool force = false;  ///< overwrite it
  bool json = false;
  bool fail_on_finding = false;
};

void AddDiagnoseCommand(CLI::App& app, int& exit_code);

/// Prints what is abnormal in a run and why. Answers 3 where something was found and
/// `fail_on_finding` is set, else 0.
int RunDiagnose(const DiagnoseCommandOptions& options);

}  // namespace teller::cli
