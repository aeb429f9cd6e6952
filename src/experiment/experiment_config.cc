#include "src/experiment/experiment_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "fault_injection/fault_kind.h"
#include "src/core/error.h"
#include "src/experiment/model_settings.h"

namespace teller::experiment {
namespace {

constexpr std::string_view kModes[] = {"structural", "adjacency"};
constexpr std::string_view kInputs[] = {"tokens", "full"};
constexpr std::string_view kLevels[] = {"ranges", "full"};
constexpr int kMaxVocabulary = 1'000'000;

/// The leaves of a mapping as --set overrides.
void AppendOverrides(const config::Node& node, const std::string& path,
                     std::vector<std::string>& overrides) {
  if (!node.IsMap()) {
    overrides.push_back(path + "=" + node.ToYaml());
    return;
  }
  for (const auto& [key, value] : node.Entries())
    AppendOverrides(value, path.empty() ? key : path + "." + key, overrides);
}

std::vector<std::string> ScaleOverrides(const std::filesystem::path& path,
                                        const std::string& scale) {
  std::vector<std::string> overrides;
  if (scale.empty()) return overrides;
  const config::Node file = config::Node::Load(path);
  const auto scales = file.Find("scales");
  const auto wanted = scales ? scales->Find(scale) : std::nullopt;
  if (!wanted) file.Fail(fmt::format("no scale '{}' under 'scales:'", scale));
  AppendOverrides(*wanted, "", overrides);
  return overrides;
}

uint64_t ReadSeed(const config::Node& part, uint64_t fallback) {
  int64_t seed = static_cast<int64_t>(fallback);
  part.Read("seed", seed, 0);
  return static_cast<uint64_t>(seed);
}

LoadConfig ReadLoad(const config::Node& part) {
  LoadConfig load;
  part.Read("concurrency", load.concurrency, 1, 4096);
  part.Read("arguments", load.arguments);
  return load;
}

ConfigurationFault ReadConfigurationFault(const config::Node& part) {
  std::vector<std::string_view> kinds;
  for (const auto& kind : fault_injection::AllKinds()) {
    if (kind.description.by_run) kinds.push_back(kind.description.name);
  }
  ConfigurationFault fault{.kind = part.Get("kind").AsChoice(kinds),
                           .workload = part.Get("workload")};
  part.Read("level", fault.level, 1, 5);
  for (const auto& [name, value] : part.Get("magnitude").Entries())
    fault.magnitude[name] = value.AsDouble();
  return fault;
}

CampaignConfig ReadCampaign(const config::Node& part) {
  CampaignConfig campaign{.workload = part.Get("workload"), .faults = part.Get("faults")};
  part.Read("runs", campaign.runs, 1, 100'000);
  campaign.seed = ReadSeed(part, campaign.seed);
  part.Read("clock_offset_share", campaign.clock_offset_share, 0, 1);
  part.Read("clock_offset_s", campaign.clock_offset_s, 0, 1e6);
  if (const auto level = part.Find("level")) campaign.level = level->AsChoice(kLevels);
  if (const auto load = part.Find("load")) campaign.load = ReadLoad(*load);
  if (const auto faults = part.Find("configuration")) {
    for (const config::Node& fault : faults->Items())
      campaign.configuration.push_back(ReadConfigurationFault(fault));
  }
  part.Read("restarts", campaign.restarts, 1, 1000);
  return campaign;
}

void ReadSplitPart(const config::Node& part, ExperimentConfig& config) {
  part.Read("validation", config.split.validation, 1, 100'000);
  part.Read("test", config.split.test, 1, 100'000);
  config.split_seed = ReadSeed(part, config.split_seed);
}

void ReadSlice(const config::Node& part, slice::SliceOptions& slice) {
  part.Read("suspects", slice.suspects, 1, 1024);
  part.Read("node_budget", slice.node_budget, 1, 1 << 20);
  part.Read("neighbours", slice.neighbours, 0, 1024);
  part.Read("instances", slice.instances, 0, 1024);
  part.Read("log_budget", slice.log_budget, 0, 1024);
  part.Read("ancestors", slice.ancestors);
  part.Read("subtrees", slice.subtrees);
  part.Read("peers", slice.peers);
  part.Read("fill", slice.fill);
  part.Read("logs", slice.logs);
}

double ReadCut(const config::Node& node) { return node.AsDouble(.01, .9999); }

VocabularyConfig ReadMain(const config::Node& part) {
  VocabularyConfig vocabulary;
  if (const auto mode = part.Find("mode")) vocabulary.mode = mode->AsChoice(kModes);
  part.Read("size", vocabulary.size, 1, kMaxVocabulary);
  if (const auto cut = part.Find("cut")) {
    if (part.Find("size")) part.Fail("expected either \"size\" or \"cut\"");
    vocabulary.size = kMaxVocabulary;
    vocabulary.cut = ReadCut(*cut);
  }
  return vocabulary;
}

std::vector<VocabularyConfig> ReadSweepVocabularies(const config::Node& item) {
  const std::string mode = item.Get("mode").AsChoice(kModes);
  std::vector<VocabularyConfig> vocabularies;
  if (const auto cuts = item.Find("cuts")) {
    for (const config::Node& cut : cuts->Items())
      vocabularies.push_back({mode, kMaxVocabulary, ReadCut(cut)});
  }
  if (const auto sizes = item.Find("sizes")) {
    for (const int64_t size : sizes->AsInts(1, kMaxVocabulary)) {
      vocabularies.push_back({.mode = mode, .size = static_cast<int>(size)});
    }
  }
  if (vocabularies.empty()) item.Fail("expected \"sizes\" or \"cuts\"");
  return vocabularies;
}

void ReadSweepItem(const config::Node& item, std::vector<SweepRow>& sweep) {
  for (const VocabularyConfig& vocabulary : ReadSweepVocabularies(item)) {
    for (const config::Node& inputs : item.Get("inputs").Items()) {
      sweep.push_back({vocabulary, inputs.AsChoice(kInputs)});
    }
  }
}

void ReadVocabularies(const config::Node& part, ExperimentConfig& config) {
  config.main = ReadMain(part.Get("main"));
  if (const auto sweep = part.Find("sweep")) {
    for (const config::Node& item : sweep->Items()) ReadSweepItem(item, config.sweep);
  }
}

void ReadData(const config::Node& node, ExperimentConfig& config) {
  if (const auto campaign = node.Find("campaign")) config.campaign = ReadCampaign(*campaign);
  std::vector<std::string> steps;
  node.Read("steps", steps);
  config.steps.assign(steps.begin(), steps.end());
  if (const auto from = node.Find("from")) config.published = ReadPublishedSet(from->AsPath());
  const int sources =
      (config.campaign ? 1 : 0) + (config.steps.empty() ? 0 : 1) + (config.published ? 1 : 0);
  if (sources != 1) {
    node.Fail(
        "expected one of \"campaign\" (runs to record), \"from\" (a published data set) and "
        "\"steps\" (a list of steps.h5 files)");
  }
}

}  // namespace

std::string VocabularyConfig::Name() const {
  return cut > 0 ? fmt::format("{} cut {:g}", mode, cut) : fmt::format("{} {}", mode, size);
}

std::vector<VocabularyConfig> ExperimentConfig::Vocabularies() const {
  std::vector<VocabularyConfig> vocabularies = {main};
  for (const SweepRow& row : sweep) {
    const bool known =
        std::find(vocabularies.begin(), vocabularies.end(), row.vocabulary) != vocabularies.end();
    if (!known) vocabularies.push_back(row.vocabulary);
  }
  return vocabularies;
}

ExperimentConfig LoadExperiment(const std::filesystem::path& path,
                                std::span<const std::string> overrides, const std::string& scale) {
  std::vector<std::string> all = ScaleOverrides(path, scale);
  all.insert(all.end(), overrides.begin(), overrides.end());
  const config::Node node = config::Node::Load(path, all);
  ExperimentConfig config;
  node.Get("schema_version").AsInt(1, 1);
  config.name = path.stem().string();
  node.Read("name", config.name);
  const bool is_plain =
      !config.name.empty() && config.name.find_first_of("/. ") == std::string::npos;
  if (!is_plain) node.Fail(fmt::format("the name '{}' must be a plain folder name", config.name));
  node.Read("question", config.question);
  node.Find("scales");
  ReadData(node, config);
  if (const auto split = node.Find("split")) ReadSplitPart(*split, config);
  if (const auto slice = node.Find("slice")) ReadSlice(*slice, config.slice);
  config.faults_only = config.campaign && !node.Find("vocabulary");
  if (!config.faults_only) ReadVocabularies(node.Get("vocabulary"), config);
  node.Read("seeds", config.seeds);
  if (config.seeds.empty()) node.Get("seeds").Fail("expected at least one seed");
  if (const auto model = node.Find("model")) config.model = ReadModelSettings(*model);
  node.RejectUnknownKeys();
  config.canonical = node.Canonical();
  return config;
}

}  // namespace teller::experiment
