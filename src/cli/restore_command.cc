#include "src/cli/restore_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/cluster/restore.h"
#include "src/collect/recovery.h"
#include "src/core/error.h"
#include "src/core/text_table.h"

namespace teller::cli {
namespace {

std::string AsJson(const std::vector<cluster::Leftover>& leftovers) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& leftover : leftovers) {
    list.push_back({{"run_id", leftover.run_id},
                    {"change", leftover.change},
                    {"what", leftover.what},
                    {"outcome", leftover.outcome},
                    {"failed", leftover.failed}});
  }
  return nlohmann::json{{"leftovers", list}}.dump(2) + "\n";
}

std::string AsText(const std::vector<cluster::Leftover>& leftovers) {
  if (leftovers.empty()) return "nothing to restore\n";
  TextTable table({"run", "change", "what", "outcome"});
  for (const auto& leftover : leftovers) {
    table.AddRow({leftover.run_id, leftover.change, leftover.what, leftover.outcome});
  }
  return table.ToText();
}

}  // namespace

void AddRestoreCommand(CLI::App& app) {
  auto options = std::make_shared<RestoreOptions>();
  CLI::App* command = app.add_subcommand(
      "restore",
      "Undo what runs that were killed have left on this machine (their journals say what)");
  command->add_flag("--dry-run", options->dry_run, "Change nothing, say what would be undone");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { RunRestore(*options); });
}

void RunRestore(const RestoreOptions& options) {
  const auto leftovers = cluster::RestoreLeftovers(options.dry_run, collect::RecoverCollection);
  std::fputs((options.json ? AsJson(leftovers) : AsText(leftovers)).c_str(), stdout);
  const auto failed = std::count_if(leftovers.begin(), leftovers.end(),
                                    [](const auto& leftover) { return leftover.failed; });
  if (failed > 0) {
    throw DeviceError(fmt::format(
        "restore: {} of {} changes could not be undone; the journals stay for another try", failed,
        leftovers.size()));
  }
}

}  // namespace teller::cli
