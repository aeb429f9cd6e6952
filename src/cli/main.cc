// teller: one program, one file per subcommand. Maps every error to one line on stderr and an exit
// code.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>

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

/// A standard stream that was closed would be reused by the next file we open, and printed into:
/// it is opened so that reading it ends at once and writing to it fails.
void OpenStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
      throw teller::DeviceError("cannot open /dev/null");
  }
}

/// The code to end with: what could not be printed is a failure.
int Flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return Report((std::string("writing the output failed: ") + std::strerror(errno)).c_str(),
                teller::ExitCode::kFailed);
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
    OpenStandardStreams();
    teller::InstallInterruptHandlers();
    app.parse(argc, argv);
    return Flushed(exit_code);
  } catch (const CLI::Success& done) {
    return Flushed(app.exit(done));
  } catch (const std::system_error& error) {
    const bool printing = std::string_view(error.what()).starts_with("cannot write to file");
    return Report(
        printing ? ("writing the output failed: " + error.code().message()).c_str() : error.what(),
        teller::ExitCode::kFailed);
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
