#include "src/experiment/data_set.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "src/config/config.h"
#include "src/core/atomic_file.h"
#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/version.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

constexpr char kManifest[] = "manifest.yaml";

PublishedRun ReadRun(const config::Node& node, const fs::path& folder) {
  PublishedRun run{.file = node.Get("file").AsString(),
                   .run_id = node.Get("run_id").AsString(),
                   .engine = node.Get("engine").AsString(),
                   .role = node.Get("role").AsString(),
                   .hash = node.Get("xxh3_128").AsString()};
  node.Read("steps", run.steps, 0);
  node.Read("forests", run.forests, 0);
  node.Read("positive", run.positive, 0);
  node.Read("bytes", run.bytes, 0);
  std::error_code error;
  const auto size = static_cast<int64_t>(fs::file_size(folder / run.file, error));
  if (error || size != run.bytes) {
    node.Fail(fmt::format("'{}' is missing or not of {} bytes; fetch the data set again",
                          (folder / run.file).string(), run.bytes));
  }
  return run;
}

bool IsMainRole(const std::string& role) {
  return role == "train" || role == "validation" || role == "test";
}

/// Marks blocks of steps in a row, spread evenly over `pool` (positions in order), until `wanted`
/// steps are kept.
void KeepBlocks(const std::vector<std::size_t>& pool, int64_t wanted, std::vector<uint8_t>& keep) {
  const auto size = static_cast<int64_t>(pool.size());
  const int64_t blocks =
      std::min((wanted + kForestBlockSteps - 1) / kForestBlockSteps, size / kForestBlockSteps);
  for (int64_t block = 0; block < blocks; ++block) {
    // The middle of each of `blocks` equal parts.
    const int64_t first = (2 * block + 1) * size / (2 * blocks) - kForestBlockSteps / 2;
    for (int64_t i = first; i < first + kForestBlockSteps; ++i) {
      keep[pool[static_cast<std::size_t>(std::clamp<int64_t>(i, 0, size - 1))]] = 1;
    }
  }
}

}  // namespace

std::vector<PublishedRun> PublishedSet::MainRuns() const {
  std::vector<PublishedRun> main;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(main),
               [](const PublishedRun& run) { return IsMainRole(run.role); });
  return main;
}

PublishedSet ReadPublishedSet(const fs::path& folder) {
  const config::Node node = config::Node::Load(folder / kManifest);
  node.Get("schema_version").AsInt(1, 1);
  PublishedSet set{.folder = folder, .name = node.Get("name").AsString(), .runs = {}};
  for (const config::Node& run : node.Get("runs").Items()) set.runs.push_back(ReadRun(run, folder));
  if (set.MainRuns().empty()) node.Get("runs").Fail("no run trains, validates or tests");
  return set;
}

void WriteManifest(const PublishedSet& set, const std::vector<std::string>& sources) {
  utsname machine = {};
  ::uname(&machine);
  std::string text = fmt::format(
      "schema_version: 1\nname: {}\ncommit: \"{}\"\nteller_version: \"{}\"\ncreated_utc: \"{}\"\n"
      "machine: {{kernel: \"{}\", cores: {}}}\nsources:\n",
      set.name, Commit(), Version(), UtcNow(), machine.release, ::sysconf(_SC_NPROCESSORS_ONLN));
  for (const std::string& source : sources) text += fmt::format("  - \"{}\"\n", source);
  text += "runs:\n";
  for (const PublishedRun& run : set.runs) {
    text += fmt::format(
        "  - {{file: {}, run_id: \"{}\", engine: {}, role: {}, steps: {}, forests: {}, positive: "
        "{}, "
        "bytes: {}, xxh3_128: \"{}\"}}\n",
        run.file, run.run_id, run.engine, run.role, run.steps, run.forests, run.positive, run.bytes,
        run.hash);
  }
  WriteFileAtomically(set.folder / kManifest, text);
}

std::vector<uint8_t> ChooseForests(const dataset::StepsFile& run, const ForestBudget& budget) {
  std::map<int32_t, std::vector<std::size_t>> stretches;
  std::vector<std::size_t> healthy, calibration;
  for (std::size_t i = 0; i < run.labels.size(); ++i) {
    const dataset::StepLabel& label = run.labels[i];
    if (!run.forest[i]) continue;
    if ((label.reasons & dataset::kReasonCalibration) != 0) {
      calibration.push_back(i);
    } else if (label.stretch >= 0) {
      stretches[label.stretch].push_back(i);
    } else {
      healthy.push_back(i);
    }
  }
  std::vector<uint8_t> keep(run.labels.size(), 0);
  KeepBlocks(calibration, budget.calibration, keep);
  KeepBlocks(healthy, budget.healthy, keep);
  const auto count = static_cast<int64_t>(std::max<std::size_t>(1, stretches.size()));
  for (const auto& [stretch, steps] : stretches)
    KeepBlocks(steps, (budget.faulty + count - 1) / count, keep);
  return keep;
}

}  // namespace teller::experiment
