#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/experiment/stage.h"
#include "src/experiment/store.h"

namespace teller::experiment {

/// What is known of a stage before the job: its address once its inputs are finished, and its
/// result if that is there.
struct StageState {
  std::optional<std::string> key;
  std::optional<StageRecord> record;
  bool cached() const { return record.has_value(); }
};

/// Looks up every stage; a stage whose inputs are not finished has no key yet.
std::vector<StageState> LookUp(const Plan& plan, const StageStore& store);

struct ExecutorOptions {
  int jobs = 1;               ///< stages side by side, each a process of one thread
  std::string label = "run";  ///< of the progress line
};

/// Runs what is not cached, each stage in a child process: exclusive stages first and alone, the
/// others `jobs` at a time. Answers the state of every stage. A second call does nothing. On
/// failure, or when a signal comes, the running stages are ended in good order, finished work is
/// kept, and the first error is thrown with its exit code. Children die with this process, even by
/// SIGKILL.
std::vector<StageState> Execute(const Plan& plan, const StageStore& store,
                                const ExecutorOptions& options);

}  // namespace teller::experiment
