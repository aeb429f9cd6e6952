#include "src/cli/inject_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
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
constexpr std::size_t kMostTargets = 64;
constexpr int64_t kGraceNs = 5'000'000'000;

Plan ReadPlan(const InjectOptions& options, std::size_t ranks) {
  const auto root = config::Node::Load(options.plan, options.overrides);
  const auto schedule = fault_injection::ReadSchedule(root, static_cast<int>(ranks));
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

/// Throws ConfigError where there is no such process, or it is not ours to perturb.
cluster::RankProcess CheckTarget(const InjectOptions& options, pid_t pid, std::size_t rank) {
  const auto stat = cluster::ReadProcessStat(pid);
  if (!stat || stat->state == 'Z') {
    throw ConfigError(fmt::format("inject: there is no process {}", pid));
  }
  struct stat owner = {};
  const std::string folder = fmt::format("/proc/{}", pid);
  if (::stat(folder.c_str(), &owner) == 0 && owner.st_uid != geteuid() && !options.any_user) {
    throw ConfigError(fmt::format(
        "inject: process {} belongs to user {}; give --any-user to perturb it all the same", pid,
        owner.st_uid));
  }
  return {.rank = RankId{static_cast<int32_t>(rank)},
          .node = "host",
          .pid = pid,
          .start_ticks = stat->start_ticks};
}

std::vector<pid_t> ProcessesOfCgroup(const std::string& name) {
  std::filesystem::path folder = std::filesystem::path("/sys/fs/cgroup") / name;
  if (name.starts_with('/') && !name.starts_with("/sys/fs/cgroup/"))
    folder = "/sys/fs/cgroup" + name;
  std::ifstream file(folder / "cgroup.procs");
  if (!file) {
    throw ConfigError(
        fmt::format("--cgroup {}: {} cannot be read", name, (folder / "cgroup.procs").string()));
  }
  std::vector<pid_t> pids;
  for (pid_t pid; file >> pid;) pids.push_back(pid);
  return pids;
}

std::vector<pid_t> ProcessesOfNode(const std::string& name) {
  struct stat status = {};
  const bool is_pid = name.find_first_not_of("0123456789") == std::string::npos;
  const std::string path = is_pid ? fmt::format("/proc/{}/ns/net", name) : "/run/netns/" + name;
  if (::stat(path.c_str(), &status) != 0)
    throw ConfigError(fmt::format("--node {}: {}: {}", name, path, std::strerror(errno)));
  if (status.st_ino == cluster::NamespaceInode(getpid(), "net"))
    throw ConfigError(fmt::format("--node {}: that is this machine's own network", name));
  std::vector<pid_t> pids;
  for (const pid_t pid : cluster::AllProcesses()) {
    if (cluster::NamespaceInode(pid, "net") == status.st_ino) pids.push_back(pid);
  }
  return pids;
}

/// The processes to perturb, in order of their pids; none where a command is to be started.
std::vector<cluster::RankProcess> FindTargets(const InjectOptions& options) {
  const int ways = (options.target ? 1 : 0) + (options.cgroup.empty() ? 0 : 1) +
                   (options.node.empty() ? 0 : 1) + (options.command.empty() ? 0 : 1);
  if (ways != 1 && !(options.dry_run && ways == 0)) {
    throw ConfigError(
        "inject: give one of --target PID, --cgroup PATH, --node NAME and -- COMMAND");
  }
  std::vector<pid_t> pids;
  if (options.target) pids = {*options.target};
  if (!options.cgroup.empty()) pids = ProcessesOfCgroup(options.cgroup);
  if (!options.node.empty()) pids = ProcessesOfNode(options.node);
  std::erase(pids, getpid());
  if (pids.empty() && (!options.cgroup.empty() || !options.node.empty()))
    throw ConfigError("inject: there is no process in it");
  if (pids.size() > kMostTargets)
    throw ConfigError(fmt::format("inject: {} processes, at most {}", pids.size(), kMostTargets));
  std::sort(pids.begin(), pids.end());
  std::vector<cluster::RankProcess> targets;
  for (const pid_t pid : pids) targets.push_back(CheckTarget(options, pid, targets.size()));
  return targets;
}

int InjectIntoTargets(const Plan& plan, const std::vector<cluster::RankProcess>& targets,
                      const InjectOptions& options) {
  cluster::RestoreLeftovers(/*dry_run=*/false);
  const std::string run_id = NewRunId();
  cluster::Journal journal(run_id);
  const cluster::RunFolder folder(run_id, journal);
  fault_injection::Injector injector(plan, targets,
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
          return fault_injection::FindKind(fault.kind)->description.needs_agent;
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
  command->add_option("--cgroup", options->cgroup,
                      "All processes of a cgroup (path below /sys/fs/cgroup)");
  command->add_option("--node", options->node,
                      "All processes of a network namespace (its name, or a pid in it)");
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
  const std::vector<cluster::RankProcess> targets = FindTargets(options);
  const Plan plan = ReadPlan(options, std::max<std::size_t>(1, targets.size()));
  if (options.dry_run) {
    PrintPlan(plan, options);
    return static_cast<int>(ExitCode::kDone);
  }
  PrepareOutput(options);
  if (!targets.empty()) return InjectIntoTargets(plan, targets, options);
  return CommandRun(plan, options).Run();
}

}  // namespace teller::cli
