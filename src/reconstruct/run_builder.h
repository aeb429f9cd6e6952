#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/reconstruct/call_tree.h"
#include "src/reconstruct/clock.h"
#include "src/reconstruct/collectives.h"
#include "src/reconstruct/step_forest.h"
#include "src/reconstruct/step_name.h"
#include "src/trace/event.h"

namespace teller::reconstruct {

struct BuildOptions {
  std::vector<StepRule> step_rules = DefaultStepRules();
};

/// Counters by reason (docs/reconstruction.md lists them).
using BuildStats = std::map<std::string, int64_t>;

/// Turns the events of a run's processes into step forests of all ranks.
///
/// Steps of a rank are the ranges of one thread that the trace's step rule names (the thread with
/// most of them; ranges nested in a step are none). A step holds: all that its range contains; of
/// other host threads the subtrees that begin within the range and end before the next step begins
/// (a longer interval gives its children instead); of streams the items whose launch lies in the
/// step, items without a launch by their begin. The rest is counted. Ranks' steps are matched by
/// order where all ranks have the same names in the same order, else by the largest overlap on the
/// base clock; a step that no other rank shares stays alone.
class RunBuilder {
 public:
  /// `strings` holds the names of the events and must outlive the builder.
  RunBuilder(const StringInterner& strings, const BuildOptions& options = {});
  ~RunBuilder();

  /// Adds a process; memory in proportion to its events inside steps. Where no process with steps
  /// has a rank, they get ranks in the order they were added (counted as `ranks_by_order`). Of two
  /// processes with one rank the one with more steps is kept.
  void AddProcess(int process, const trace::ProcessInfo& info, const trace::EventTable& events,
                  const ClockMap& clock);

  /// @param records, matched  collectives of all processes and which of them are the same
  /// (MatchCollectives)
  RunForest Finish(std::span<const CollectiveRecord> records,
                   std::span<const MatchedCollective> matched);

  const BuildStats& stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace teller::reconstruct
