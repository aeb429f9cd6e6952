#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fault_injection/schedule.h"
#include "src/abi/control.h"
#include "src/cluster/cluster.h"
#include "src/cluster/journal.h"
#include "src/cluster/rank_process.h"

namespace teller::fault_injection {

struct InjectorOptions {
  std::string run_id;
  std::filesystem::path truth_path;  ///< appended to while things happen (docs/schema/truth.md)
  std::filesystem::path run_dir;     ///< holds the agents' hit rings ('*.hits')
  TellerControl* control =
      nullptr;  ///< mapped writable, `perturb` set before the ranks started; null: no agent kinds
  bool any_rank =
      false;  ///< one target whose processes may have no rank: agent kinds act on all of them
  cluster::Cluster* cluster = nullptr;  ///< null: no kinds that need links between nodes
  cluster::Journal* journal = nullptr;  ///< of the run; never null
};

/// What the injector saw.
struct InjectionSummary {
  int64_t stretches = 0;    ///< that began
  int64_t placebos = 0;     ///< of them
  int64_t ineffective = 0;  ///< not placebos, without a recorded action
  int64_t actions = 0;
  int64_t lost = 0;                ///< hits that could not be recorded
  bool completed = false;          ///< false: interrupted or stopped
  std::vector<std::string> notes;  ///< one line each, for example a target that ended mid-fault
};

/// Carries out one plan on live ranks and writes what it measurably did.
///
/// A thread drains the agents' hit rings from construction to destruction. Undoes everything on
/// every way out: end of plan, exception, signal, target that dies (recorded, undone, the plan goes
/// on with the other ranks).
class Injector {
 public:
  /// Opens truth.jsonl. Throws ConfigError (the plan needs an agent or a rank that is not there;
  /// truth_path exists), DeviceError.
  Injector(Plan plan, std::vector<cluster::RankProcess> ranks, InjectorOptions options);
  ~Injector();
  Injector(const Injector&) = delete;
  Injector& operator=(const Injector&) = delete;

  /// Runs the plan from now to its end; returns early, all undone, when a signal came
  /// (core/interrupt.h), Stop was called, or every rank has ended. Then drains the last hits and
  /// writes the footer. Throws DeviceError when truth cannot be written, everything undone.
  InjectionSummary Run();
  /// Makes Run return soon. From any thread.
  void Stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace teller::fault_injection
