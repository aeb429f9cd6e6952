#include "src/cli/inject_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "fault_injection/fault_kind.h"
#include "fault_injection/injector.h"
#include "src/abi/control_file.h"
#include "src/cluster/cluster.h"
#include "src/cluster/process_table.h"
#include "src/cluster/restore.h"
#include "src/cluster/run_folder.h"
#include "src/collect/session.h"
#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/core/interrupt.h"
#include "src/core/log.h"

namespace teller::cli {
namespace {

using fault_injection::InjectionSummary;
using fault_injection::Plan;

constexpr int kOwnFailure = 125;
constexpr int kCannotStart = 126;
constexpr int kNotFound = 127;
constexpr int64_t kGraceNs = 5'000'000'000;

Plan ReadPlan(const InjectOptions& options) {
  const auto root = config::Node::Load(options.plan, options.overrides);
  const auto schedule = fault_injection::ReadSchedule(root, /*rank_count=*/1);
  return fault_injection::MakePlans(schedule, options.seed, options.run + 1).back();
}

void PrintPlan(const Plan& plan, const InjectOptions& options) {
  const std::string text = options.json ? plan.ToJson() + "\n" : plan.ToText();
  std::fputs(text.c_str(), stdout);
}

void PrintSummary(const InjectionSummary& summary, const InjectOptions& options) {
  for (const std::string& note : summary.notes) LogWarning(note);
  if (options.json) {
    const nlohmann::json line = {
        {"truth", options.output.string()}, {"stretches", summary.stretches},
        {"placebos", summary.placebos},     {"ineffective", summary.ineffective},
        {"actions", summary.actions},       {"lost", summary.lost},
        {"completed", summary.completed},   {"notes", summary.notes}};
    std::puts(line.dump(2).c_str());
    return;
  }
  LogInfo(fmt::format(
      "{}: {} stretches ({} placebos, {} without a recorded action), {} actions, {} lost{}",
      options.output.string(), summary.stretches, summary.placebos, summary.ineffective,
      summary.actions, summary.lost, summary.completed ? "" : "; the plan was not completed"));
}

std::string NewRunId() {
  return "inject-" + HashHex(fmt::format("{}:{}", getpid(), RealtimeNs())).substr(0, 10);
}

void PrepareOutput(const InjectOptions& options) {
  if (!std::filesystem::exists(options.output)) return;
  if (!options.force) {
    throw ConfigError(
        fmt::format("{} exists; choose another --output or give --force", options.output.string()));
  }
  std::filesystem::remove(options.output);
}

cluster::RankProcess FindTarget(const InjectOptions& options) {
  const pid_t pid = *options.target;
  const auto stat = cluster::ReadProcessStat(pid);
  if (!stat || stat->state == 'Z') {
    throw ConfigError(fmt::format("--target {}: there is no such process", pid));
  }
  struct stat owner = {};
  const std::string folder = fmt::format("/proc/{}", pid);
  if (::stat(folder.c_str(), &owner) == 0 && owner.st_uid != geteuid() && !options.any_user) {
    throw ConfigError(fmt::format(
        "--target {}: the process belongs to user {}; give --any-user to perturb it all the same",
        pid, owner.st_uid));
  }
  return {.rank = RankId{0}, .node = "host", .pid = pid, .start_ticks = stat->start_ticks};
}

int InjectIntoTarget(const Plan& plan, const InjectOptions& options) {
  const cluster::RankProcess target = FindTarget(options);
  cluster::RestoreLeftovers(/*dry_run=*/false);
  const std::string run_id = NewRunId();
  cluster::Journal journal(run_id);
  const cluster::RunFolder folder(run_id, journal);
  fault_injection::Injector injector(plan, {target},
                                     {.run_id = run_id,
                                      .truth_path = options.output,
                                      .run_dir = folder.path(),
                                      .control = nullptr,
                                      .journal = &journal});
  PrintSummary(injector.Run(), options);
  ThrowIfInterrupted();
  return static_cast<int>(ExitCode::kDone);
}

/// The command on a node of its own, so that it ends with us in whatever way we end.
class CommandRun {
 public:
  CommandRun(const Plan& plan, const InjectOptions& options)
      : plan_(plan),
        options_(options),
        cluster_(cluster::Cluster::Create({.run_id = NewRunId(),
                                           .nodes = {{.name = "host"}},
                                           .mode = cluster::Mode::kLoopback})) {}

  ~CommandRun() { teller_control_unmap(control_); }

  int Run() {
    const auto environment = PrepareAgent();
    try {
      process_ = cluster_->node(0).Spawn(
          {.argv = options_.command, .environment = environment, .inherit_stdin = true});
    } catch (const UnavailableError& error) {
      LogError(error.what());
      return kNotFound;
    } catch (const DeviceError& error) {
      LogError(error.what());
      return kCannotStart;
    }
    try {
      PrintSummary(Inject(), options_);
    } catch (const Error& error) {
      LogError(error.what());
      process_->Stop(kGraceNs);
      return kOwnFailure;
    }
    return WaitForEnd();
  }

 private:
  /// Variables of the agent, where the plan has a kind that needs it.
  std::map<std::string, std::string> PrepareAgent() {
    const bool needed =
        std::any_of(plan_.faults.begin(), plan_.faults.end(), [](const auto& fault) {
          return fault_injection::FindKind(fault.kind)->description().needs_agent;
        });
    if (!needed) return {};
    const auto agent = collect::FindAgentLibrary();
    const int error = teller_control_create(cluster_->run_dir().c_str(), &control_);
    if (error != 0) {
      throw DeviceError(fmt::format("control block in {}: {}", cluster_->run_dir().string(),
                                    std::strerror(error)));
    }
    teller_control_set_perturb(control_, 1);
    return collect::AgentEnvironment(agent, cluster_->run_dir(), "host");
  }

  InjectionSummary Inject() {
    const cluster::RankProcess target{.rank = RankId{0},
                                      .node = "host",
                                      .pid = process_->pid(),
                                      .start_ticks = process_->start_ticks()};
    fault_injection::Injector injector(plan_, {target},
                                       {.run_id = cluster_->run_id(),
                                        .truth_path = options_.output,
                                        .run_dir = cluster_->run_dir(),
                                        .control = control_,
                                        .any_rank = true,
                                        .journal = &cluster_->journal()});
    return injector.Run();
  }

  /// A signal to us goes on to the command, which has a session of its own.
  int WaitForEnd() {
    if (const auto status = process_->Wait(-1)) return status->ShellCode();
    process_->SignalGroup(InterruptSignal());
    return process_->Stop(kGraceNs).ShellCode();
  }

  const Plan& plan_;
  const InjectOptions& options_;
  std::unique_ptr<cluster::Cluster> cluster_;
  TellerControl* control_ = nullptr;
  std::unique_ptr<cluster::Process> process_;
};

}  // namespace

void AddInjectCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<InjectOptions>();
  CLI::App* command = app.add_subcommand(
      "inject", "Perturb a process by a seeded schedule and record what was done");
  command->add_option("plan", options->plan, "Fault schedule (configs/fault/*.yaml)")->required();
  command->add_option("command", options->command, "-- COMMAND to start and perturb");
  command->add_option("--target", options->target, "Pid of a process of yours that runs already");
  command->add_option("--output", options->output, "Where to write the truth")
      ->capture_default_str();
  command->add_option("--set", options->overrides, "Override a key of the schedule: key=value");
  command->add_option("--seed", options->seed, "Seed of the schedule")->capture_default_str();
  command->add_option("--run", options->run, "Which run of the campaign, from 0")
      ->capture_default_str();
  command->add_flag("--any-user", options->any_user, "Allow a target of another user");
  command->add_flag("--dry-run", options->dry_run, "Print the plan and change nothing");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--force", options->force, "Overwrite the output");
  command->callback([options, &exit_code] { exit_code = RunInject(*options); });
}

int RunInject(const InjectOptions& options) {
  const Plan plan = ReadPlan(options);
  if (options.dry_run) {
    PrintPlan(plan, options);
    return static_cast<int>(ExitCode::kDone);
  }
  if (options.target.has_value() == !options.command.empty()) {
    throw ConfigError("inject: give either --target PID or -- COMMAND");
  }
  PrepareOutput(options);
  if (options.target) return InjectIntoTarget(plan, options);
  return CommandRun(plan, options).Run();
}

}  // namespace teller::cli
