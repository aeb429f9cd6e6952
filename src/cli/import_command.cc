#include "src/cli/import_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "src/cli/info_command.h"
#include "src/core/log.h"
#include "src/core/text_table.h"
#include "src/interop/import_file.h"

namespace teller::cli {
namespace {

void PrintLog(const interop::ImportLog& log) {
  TextTable found({"in the source", "records"});
  for (const auto& [category, count] : log.source_counts())
    found.AddRow({category, std::to_string(count)});
  TextTable reasons({"counter", "count", "unit"});
  for (const trace::Stat& stat : log.Stats())
    reasons.AddRow({stat.name, std::to_string(stat.count), stat.unit});
  fmt::print("{}", found.ToText());
  if (!reasons.rows().empty()) fmt::print("\n{}", reasons.ToText());
}

}  // namespace

void AddImportCommand(CLI::App& app) {
  auto options = std::make_shared<ImportCommandOptions>();
  CLI::App* command =
      app.add_subcommand("import",
                         "Turn traces of others (Nsight Systems SQLite, PyTorch profiler, "
                         "published TELLER layout, NCCL "
                         "Inspector, logs) or our own of several hosts into one trace file");
  command
      ->add_option("inputs", options->inputs,
                   "Files, archives or folders; their format is found from their content")
      ->required();
  command->add_option("-o,--output", options->output, "The trace file to write (.h5)")->required();
  command->add_flag("--force", options->force, "Overwrite the output");
  command->add_flag("--keep-text", options->keep_text,
                    "Do not mask keys and tokens in log lines, command lines and names");
  command->add_flag("--json", options->json, "Print what was written as 'teller info --json' does");
  command->callback([options] { RunImport(*options); });
}

void RunImport(const ImportCommandOptions& options) {
  const std::vector<std::filesystem::path> inputs(options.inputs.begin(), options.inputs.end());
  const interop::ImportLog log = interop::ImportToFile(inputs, options.output, options.force,
                                                       {.keep_text = options.keep_text});
  for (const std::string& note : log.notes()) LogInfo(note);
  if (options.json) {
    RunInfo({.file = options.output, .json = true});
    return;
  }
  if (options.json) {
    RunInfo({.file = options.output, .json = true});
    return;
  }
  PrintLog(log);
  fmt::print("\nwrote {}\n", options.output);
}

}  // namespace teller::cli
