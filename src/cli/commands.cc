#include "src/cli/commands.h"

#include "src/cli/bench_command.h"
#include "src/cli/collect_command.h"
#include "src/cli/diagnose_command.h"
#include "src/cli/evaluate_command.h"
#include "src/cli/export_command.h"
#include "src/cli/import_command.h"
#include "src/cli/info_command.h"
#include "src/cli/inject_command.h"
#include "src/cli/paper_command.h"
#include "src/cli/publish_command.h"
#include "src/cli/restore_command.h"
#include "src/cli/run_command.h"
#include "src/cli/tokenize_command.h"
#include "src/cli/train_command.h"

namespace teller::cli {

void AddCommands(CLI::App& app, int& exit_code) {
  AddBenchCommand(app);
  AddCollectCommand(app, exit_code);
  AddDiagnoseCommand(app, exit_code);
  AddEvaluateCommand(app);
  AddExportCommand(app);
  AddImportCommand(app);
  AddInfoCommand(app, exit_code);
  AddInjectCommand(app, exit_code);
  AddPaperCommand(app, exit_code);
  AddPublishCommand(app);
  AddRestoreCommand(app);
  AddRunCommand(app);
  AddTokenizeCommand(app);
  AddTrainCommand(app);
}

}  // namespace teller::cli
