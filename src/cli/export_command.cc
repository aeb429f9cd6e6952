#include "src/cli/export_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/text_table.h"
#include "src/h5/child.h"
#include "src/interop/export.h"

namespace teller::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// A new folder that is made beside its destination and renamed when whole.
class NewFolder {
 public:
  NewFolder(fs::path destination, bool force) : destination_(std::move(destination)) {
    if (fs::exists(destination_) && !force) {
      throw ConfigError(fmt::format("'{}' exists already; choose another name or pass --force",
                                    destination_.string()));
    }
    path_ = destination_;
    path_ += fmt::format(".{}.partial", getpid());
    fs::create_directories(path_);
  }
  ~NewFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const fs::path& path() const { return path_; }
  void Commit() {
    fs::remove_all(destination_);
    fs::rename(path_, destination_);
  }

 private:
  fs::path destination_;
  fs::path path_;
};

std::string Export(const ExportCommandOptions& options, const fs::path& output) {
  const interop::ExportReport report =
      options.format == "perfetto" ? interop::ExportPerfetto(options.trace, options.steps, output)
      : options.format == "published"
          ? interop::ExportPublished(options.trace, options.steps, output)
          : interop::ExportCsv(options.trace, output);
  return json({{"written_events", report.written_events}, {"losses", report.losses}}).dump();
}

/// The trace may be anyone's: it is read in a child process with limits.
json ExportInChild(const ExportCommandOptions& options, const fs::path& output) {
  return json::parse(h5::RunInChild(options.trace, h5::ChildLimits::ForFile(options.trace),
                                    [&] { return Export(options, output); }));
}

json ExportToDestination(const ExportCommandOptions& options) {
  if (options.format == "published") {
    NewFolder folder(options.output, options.force);
    const json report = ExportInChild(options, folder.path());
    folder.Commit();
    return report;
  }
  AtomicFile file(options.output, options.force);
  const json report = ExportInChild(options, file.path());
  file.Commit();
  return report;
}

}  // namespace

void AddExportCommand(CLI::App& app) {
  auto options = std::make_shared<ExportCommandOptions>();
  CLI::App* command = app.add_subcommand("export", "Write a trace for other tools");
  command->add_option("trace", options->trace, "A trace file of ours (.h5)")->required();
  command
      ->add_option("--to", options->format,
                   "Format: perfetto (ui.perfetto.dev), published (TELLER layout), csv")
      ->required()
      ->check(CLI::IsMember({"perfetto", "published", "csv"}));
  command->add_option("-o,--output", options->output, "File to write; a folder for 'published'")
      ->required();
  command->add_option("--steps", options->steps,
                      "Steps file of the same run: its labels are exported too");
  command->add_flag("--force", options->force, "Overwrite the output");
  command->add_flag("--json", options->json, "Print the counts as JSON");
  command->callback([options] { RunExport(*options); });
}

void RunExport(const ExportCommandOptions& options) {
  if (options.format == "csv" && !options.steps.empty()) {
    throw ConfigError("--steps: the csv export holds no labels; use --to perfetto or published");
  }
  const json report = ExportToDestination(options);
  if (options.json) {
    fmt::print("{}\n", report.dump(2));
    return;
  }
  fmt::print("wrote {} events to {}\n", report["written_events"].get<int64_t>(), options.output);
  TextTable losses({"not in this format", "events"});
  for (const auto& [reason, count] : report["losses"].items())
    losses.AddRow({reason, std::to_string(count.get<int64_t>())});
  if (!losses.rows().empty()) fmt::print("\n{}", losses.ToText());
}

}  // namespace teller::cli
