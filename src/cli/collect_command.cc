#include "src/cli/collect_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "src/collect/elf_check.h"
#include "src/collect/recovery.h"
#include "src/collect/relay.h"
#include "src/collect/rendezvous.h"
#include "src/collect/running_sessions.h"
#include "src/collect/session.h"
#include "src/collect/target.h"
#include "src/core/error.h"
#include "src/core/log.h"

namespace teller::cli {

namespace {

constexpr int kOwnFailure = 125;
constexpr int64_t kRelayGraceNs = 2'000'000'000;

void ReportLosses(const std::vector<trace::Stat>& stats) {
  for (const trace::Stat& stat : stats) {
    if (stat.severity == trace::Severity::kInfo || stat.count == 0) continue;
    LogWarning(fmt::format("{}: {} {}", stat.name, stat.count, stat.unit));
  }
}

void CountLostOutput(const collect::Relay& relay, collect::Session& session) {
  session.AddStat({"lost_log_bytes", "bytes", trace::Severity::kDataLoss,
                   static_cast<int64_t>(relay.lost_bytes())});
}

/// From here on the command has started: its exit code is ours, and our own failure is 125.
int FollowTarget(const CollectOptions& options, collect::Session& session, collect::Relay& relay,
                 collect::Target& target, collect::Rendezvous* rendezvous) {
  try {
    const auto duration_ns = static_cast<int64_t>(options.duration_s * 1e9);
    std::optional<int> code = target.Wait(duration_ns > 0 ? duration_ns : -1);
    const bool time_was_over = !code.has_value();
    if (time_was_over) {
      session.SetLevel(collect::Level::kOff);
      code = target.Wait(-1);
    }
    if (!relay.WaitEnd(kRelayGraceNs))
      LogInfo("the command has ended; a process it left behind still holds its output");
    CountLostOutput(relay, session);
    if (rendezvous != nullptr) session.AddProbes(rendezvous->Finish());
    ReportLosses(session.Finish());
    if (isatty(STDERR_FILENO)) {  // elsewhere stderr is the command's alone
      LogInfo(fmt::format("{}: {} records", options.output, session.RecordCount()));
    }
    return *code;
  } catch (const Error& error) {
    LogError(error.what());
    return kOwnFailure;
  }
}

/// Records of killed collections beside the output: they are not ours, but whoever starts again
/// wants to know.
void MentionLeftovers(const std::filesystem::path& output) {
  for (const std::string& run_id : collect::FindLeftovers(output)) {
    LogWarning(fmt::format("the collector of run {} was killed; 'teller restore' writes its trace",
                           run_id));
  }
}

std::unique_ptr<collect::Rendezvous> Meet(const CollectOptions& options) {
  if (options.rendezvous.empty()) return nullptr;
  return collect::Rendezvous::Meet(
      {.address = options.rendezvous, .run_id = options.run_id, .node = collect::OwnNodeName()});
}

std::unique_ptr<collect::Session> StartSession(const CollectOptions& options,
                                               const collect::Rendezvous* rendezvous) {
  return collect::Session::Start(
      {.output = options.output,
       .force = options.force,
       .run_dir = options.run_dir,
       .recoverable = true,
       .run_id = rendezvous == nullptr ? options.run_id : rendezvous->run_id(),
       .level = collect::ParseLevel(options.level),
       .sources = collect::ParseSources(options.sources),
       .shapes = options.shapes,
       .whole_graphs = options.graphs == "whole",
       .max_bytes = options.max_bytes});
}

void FollowOutput(collect::Session& session) {
  for (const std::string stream : {"stdout", "stderr"}) {
    const auto copy = collect::RelayCopy::In(session.spool_dir(), stream);
    session.AddLogFile("", stream, copy.text, {.stamps = copy.stamps});
  }
}

int CollectFromCommand(const CollectOptions& options) {
  collect::ParseLevel(options.level);
  collect::ParseSources(options.sources);
  if (const auto note =
          collect::CheckAgentFits(collect::FindAgentLibrary(), options.command.front()))
    LogWarning(*note);
  MentionLeftovers(options.output);
  const std::unique_ptr<collect::Rendezvous> rendezvous = Meet(options);
  const auto session = StartSession(options, rendezvous.get());
  for (const std::string& pattern : options.follow) session->AddLogPattern(pattern);
  collect::Relay relay(collect::RelayCopy::In(session->spool_dir(), "stdout"),
                       collect::RelayCopy::In(session->spool_dir(), "stderr"));
  FollowOutput(*session);
  try {
    collect::Target target(options.command, session->Environment(), relay.pipes());
    relay.ClosePipes();
    return FollowTarget(options, *session, relay, target, rendezvous.get());
  } catch (const collect::CommandError& error) {
    LogError(error.message);
    return error.exit_code;
  }
}

nlohmann::json ToJson(const collect::RunningSession& session) {
  nlohmann::json processes = nlohmann::json::array();
  for (const trace::ProcessInfo& process : session.processes) {
    nlohmann::json rank = nullptr;
    if (process.rank != kNoRank) rank = static_cast<int32_t>(process.rank);
    processes.push_back(
        {{"pid", process.pid}, {"rank", rank}, {"node", process.node}, {"comm", process.comm}});
  }
  return {{"run_id", session.run_id},
          {"level", collect::LevelName(session.level)},
          {"owner_pid", session.owner_pid},
          {"processes", processes}};
}

void PrintStatus(const collect::RunningSession& session, bool json) {
  if (json) {
    std::printf("%s\n", ToJson(session).dump().c_str());
    return;
  }
  std::printf("run %s: level %s, %zu processes, collector %u\n", session.run_id.c_str(),
              collect::LevelName(session.level), session.processes.size(), session.owner_pid);
}

int ControlRunning(const CollectOptions& options) {
  if (options.control != "on" && options.control != "off" && options.control != "status") {
    throw ConfigError(fmt::format("--control '{}': expected on, off or status", options.control));
  }
  collect::RunningSession session = collect::FindRunningSession(options.run_id);
  if (options.control != "status") {
    session.level =
        options.control == "off" ? collect::Level::kOff : collect::ParseLevel(options.level);
    collect::SetRunningLevel(session, session.level);
  }
  PrintStatus(session, options.json);
  return 0;
}

}  // namespace

int RunCollect(const CollectOptions& options) {
  if (!options.control.empty()) return ControlRunning(options);
  if (options.command.empty()) throw ConfigError("teller collect: no command; write it after '--'");
  return CollectFromCommand(options);
}

void AddCollectCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CollectOptions>();
  CLI::App* command =
      app.add_subcommand("collect", "Run a command and collect what it does into a trace file");
  command->add_option("-o,--output", options->output, "Trace file")->capture_default_str();
  command->add_option("--level", options->level, "off, ranges or full")->capture_default_str();
  command->add_option("--sources", options->sources, "Comma-separated sources")
      ->capture_default_str();
  command->add_flag("--shapes", options->shapes, "Keep the shapes of operators' inputs");
  command
      ->add_option("--graphs", options->graphs,
                   "CUDA graphs: nodes (an event a kernel) or whole (an event a launch)")
      ->capture_default_str()
      ->check(CLI::IsMember({"nodes", "whole"}));
  command
      ->add_option("--duration", options->duration_s,
                   "Seconds to record; 0: until the command ends")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--max-size", options->max_bytes,
                   "Recording stops at so many bytes of raw records and log lines (64 a record; "
                   "'500MB', '2GB'); 0: no limit")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false));
  command
      ->add_option("--follow", options->follow,
                   "Log files to record from now on, by a quoted shell pattern (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--rendezvous", options->rendezvous,
                      "HOST:PORT where collectors of several hosts meet, the same on each");
  command->add_flag("--force", options->force, "Overwrite the trace file");
  command->add_option("--control", options->control,
                      "on, off or status of a collection that runs already");
  command->add_option("--run-id", options->run_id, "Name of the run; with --control: which one");
  command->add_option("--run-dir", options->run_dir,
                      "Existing tmpfs folder for the rings; default: one in /dev/shm");
  command->add_flag("--json", options->json, "Machine-readable status");
  command->add_option("command", options->command, "The command and its arguments, after '--'");
  command->callback([options, &exit_code] { exit_code = RunCollect(*options); });
}

}  // namespace teller::cli
