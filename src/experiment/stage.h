#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace teller::experiment {

/// A stage of a plan: its index in Plan::stages.
enum class StageId : uint32_t {};

/// What a stage sees while it runs, in a process of its own.
struct StageContext {
  std::vector<std::filesystem::path> inputs;  ///< folder of each input stage, finished
  std::filesystem::path output;  ///< an empty folder; every file left in it is the result
  std::string key;               ///< the stage's address
  std::function<void(double share, const std::string& note)> progress;  ///< share done, 0 to 1
};

/// A function from files to files with everything its result depends on.
struct Stage {
  std::string kind;             ///< 'steps': names the folder in the store
  std::string name;             ///< 'run03': for people
  std::string version;          ///< raised whenever the code changes what it writes
  std::string settings;         ///< canonical text
  std::vector<StageId> inputs;  ///< earlier stages
  double cost_s = 1;            ///< expected seconds, for time left and --dry-run
  bool exclusive = false;       ///< runs with no other stage beside it: it measures
  int attempts = 1;             ///< how often it may be tried before the job fails
  std::function<void(const StageContext&)> make;
};

/// Stages in an order in which inputs come first.
struct Plan {
  std::vector<Stage> stages;

  StageId Add(Stage stage) {
    stages.push_back(std::move(stage));
    return StageId{static_cast<uint32_t>(stages.size() - 1)};
  }
  const Stage& At(StageId id) const { return stages.at(static_cast<std::size_t>(id)); }
};

}  // namespace teller::experiment
