#include "src/experiment/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/random.h"

namespace teller::experiment {
namespace {
using Json = nlohmann::ordered_json;

struct Part {
  const char* name;
  const std::vector<std::string>* runs;
};

std::vector<Part> PartsOf(const Split& split) {
  return {{"train", &split.train}, {"validation", &split.validation}, {"test", &split.test}};
}

}  // namespace

Split DrawSplit(const std::vector<RunIdentity>& runs, const SplitSizes& sizes, uint64_t seed) {
  const auto held_out = static_cast<std::size_t>(sizes.validation + sizes.test);
  if (runs.size() <= held_out) {
    throw ConfigError(fmt::format(
        "a split of {} runs into {} for validation, {} for test leaves none to train; record more "
        "runs (campaign.runs) or hold out fewer (split)",
        runs.size(), sizes.validation, sizes.test));
  }
  std::vector<std::string> ids;
  for (const RunIdentity& run : runs) ids.push_back(run.run_id);
  std::sort(ids.begin(), ids.end());
  Random(seed, "split").Shuffle(std::span(ids));
  const auto test_end = ids.begin() + sizes.test;
  const auto validation_end = test_end + sizes.validation;
  Split split{.seed = seed,
              .train = {validation_end, ids.end()},
              .validation = {test_end, validation_end},
              .test = {ids.begin(), test_end}};
  for (auto* part : {&split.train, &split.validation, &split.test})
    std::sort(part->begin(), part->end());
  CheckSplit(split, runs);
  return split;
}

void CheckSplit(const Split& split, const std::vector<RunIdentity>& runs) {
  std::map<std::string, std::string> content_of;
  for (const RunIdentity& run : runs) content_of[run.run_id] = run.content;
  std::map<std::string, std::string> seen;  // content -> 'run a (train)'
  for (const Part& part : PartsOf(split)) {
    if (part.runs->empty())
      throw DataError(fmt::format("split: the part '{}' has no run", part.name));
    for (const std::string& run : *part.runs) {
      const auto content = content_of.find(run);
      if (content == content_of.end())
        throw DataError(fmt::format("split: run {} ({}) is not there", run, part.name));
      const std::string here = fmt::format("run {} ({})", run, part.name);
      const auto [other, is_new] = seen.emplace(content->second, here);
      if (!is_new) {
        throw DataError(fmt::format(
            "split leaks: {} and {} hold the same data; every run may stand in one part only",
            other->second, here));
      }
    }
  }
}

void WriteSplit(const std::filesystem::path& path, const Split& split) {
  const Json json{
      {"schema_name", "splits"}, {"schema_version", "1.0"},        {"seed", split.seed},
      {"train", split.train},    {"validation", split.validation}, {"test", split.test}};
  WriteFileAtomically(path, json.dump(1) + "\n");
}

Split ReadSplit(const std::filesystem::path& path) {
  try {
    const Json json = Json::parse(ReadFile(path));
    if (json.at("schema_name") != "splits") throw DataError(path.string() + ": not a splits file");
    return {.seed = json.at("seed"),
            .train = json.at("train"),
            .validation = json.at("validation"),
            .test = json.at("test")};
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("{}: not a splits file: {}", path.string(), error.what()));
  }
}

}  // namespace teller::experiment
