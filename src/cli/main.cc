// teller: one program, one file per subcommand. Maps every error to one line on stderr and an exit
// code.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "src/cli/commands.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/core/version.h"

namespace {

constexpr int Code(teller::ExitCode code) { return static_cast<int>(code); }

int Report(const char* message, teller::ExitCode code) {
  std::fprintf(stderr, "teller: error: %s\n", message);
  return Code(code);
}

/// The help that knows the words of the command line: 'teller bench --help' after 'teller bench'.
std::string HelpOf(const CLI::App& app) {
  std::string command = "teller";
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    command += " " + at->get_name();
  }
  return command + " --help";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Root-cause analysis of LLM inference: which operator on which rank, why, and how sure.",
      "teller");
  app.set_version_flag("--version", std::string(teller::Version()) + " (" + teller::Commit() + ")");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every subcommand");
  int exit_code = Code(teller::ExitCode::kDone);
  teller::cli::AddCommands(app, exit_code);
  try {
    teller::InstallInterruptHandlers();
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    return Report((std::string(error.what()) + "; see '" + HelpOf(app) + "'").c_str(),
                  teller::ExitCode::kBadInput);
  } catch (const teller::Error& error) {
    return Report(error.what(), error.code());
  } catch (const std::bad_alloc&) {
    return Report("out of memory", teller::ExitCode::kFailed);
  } catch (const std::exception& error) {
    return Report(error.what(), teller::ExitCode::kFailed);
  }
}
