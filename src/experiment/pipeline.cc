#include "src/experiment/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <span>

#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/core/random.h"
#include "src/dataset/build_steps.h"
#include "src/dataset/pipeline.h"
#include "src/experiment/campaign.h"
#include "src/experiment/fault_validation.h"
#include "src/experiment/pipeline_stages.h"
#include "src/interop/packed_steps.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

/// Versions of what each stage writes: raise one when its code changes its result.
struct StageVersions {
  const char *run = "2", *steps = "2", *baseline = "2", *slices = "2", *vocabulary = "1",
             *tokens = "2", *model = "2", *predictions = "2", *permuted = "1", *baselines = "1",
             *split = "1", *metrics = "3", *faults = "1", *unpacked = "1";
};
constexpr StageVersions kVersions;

/// Expected seconds of a stage before any was measured: two busy cores, quickstart's sizes.
double GuessCost(const std::string& kind) {
  static const std::map<std::string, double> guesses = {
      {"steps", 4},      {"baseline", 6}, {"slices", 3},      {"vocabularies", 3},
      {"tokens", 3},     {"models", 16},  {"predictions", 8}, {"permuted", 1},
      {"baselines", 12}, {"splits", 1},   {"metrics", 10}};
  const auto found = guesses.find(kind);
  return found == guesses.end() ? 1 : found->second;
}

/// What the model must not see in a row of inputs 'tokens' is switched off (docs/protocol.md,
/// section 5).
std::string ModelConfigFor(model::ModelConfig config, const std::string& inputs) {
  if (inputs == "tokens") {
    config.modalities.numbers = config.modalities.logs = config.modalities.localizer = false;
    config.attributes.residual = false;
    config.selection = model::Selection::kOrder;
  }
  return model::ModelConfigJson(config);
}

/// Inputs of a stage: which stages, and where each list begins among them.
class InputList {
 public:
  std::size_t Add(StageId stage) {
    ids_.push_back(stage);
    return ids_.size() - 1;
  }
  std::pair<std::size_t, std::size_t> Add(const std::vector<StageId>& stages) {
    const std::size_t first = ids_.size();
    ids_.insert(ids_.end(), stages.begin(), stages.end());
    return {first, stages.size()};
  }
  const std::vector<StageId>& ids() const { return ids_; }

 private:
  std::vector<StageId> ids_;
};

Paths Files(const StageContext& context, std::pair<std::size_t, std::size_t> range,
            const char* name) {
  Paths paths;
  for (std::size_t i = 0; i < range.second; ++i)
    paths.push_back(context.inputs.at(range.first + i) / name);
  return paths;
}

class Builder {
 public:
  Builder(const ExperimentConfig& config, const CostHistory& history)
      : config_(config), history_(history) {}

  Pipeline Build() {
    AddSteps();
    pipeline_.steps = steps_;
    if (config_.faults_only) {
      AddFaultTables();
      return std::move(pipeline_);
    }
    roles_ = AssignRoles(config_, steps_.size());
    in_order_ = roles_.InOrder();
    AddBaselineAndSlices();
    for (const VocabularyConfig& vocabulary : config_.Vocabularies()) {
      AddVocabulary(vocabulary);
      if (vocabulary == config_.main)
        splits_ = AddSplits();  // early: a split that leaks must not be trained on
    }
    AddPermuted();
    for (const VocabularyConfig& vocabulary : config_.Vocabularies()) AddModels(vocabulary);
    AddMetrics();
    return std::move(pipeline_);
  }

 private:
  /// A vocabulary with its tokens (by run, in order of roles) and what was learned from them.
  struct Encoded {
    StageId vocabulary;
    std::vector<StageId> tokens;
    std::map<std::string, std::vector<StageId>> predictions;  ///< by inputs, one a seed
  };

  StageId Add(Stage stage) {
    if (stage.cost_s == 1) stage.cost_s = history_(stage.kind).value_or(GuessCost(stage.kind));
    return pipeline_.plan.Add(std::move(stage));
  }
  std::vector<StageId> Training(const std::vector<StageId>& stages) const {
    return {stages.begin(), stages.begin() + static_cast<std::ptrdiff_t>(roles_.train.size())};
  }
  std::vector<StageId> Held(const std::vector<StageId>& stages) const {
    return {stages.begin() + static_cast<std::ptrdiff_t>(roles_.train.size()), stages.end()};
  }
  std::vector<StageId> Validation(const std::vector<StageId>& stages) const {
    const std::vector<StageId> held = Held(stages);
    return {held.begin(), held.begin() + static_cast<std::ptrdiff_t>(roles_.validation.size())};
  }
  std::vector<StageId> InOrder(const std::vector<StageId>& by_run) const {
    std::vector<StageId> ordered;
    for (const std::size_t run : in_order_) ordered.push_back(by_run[run]);
    return ordered;
  }

  void AddPublishedSteps() {
    for (const PublishedRun& run : config_.published->MainRuns()) {
      const fs::path packed = config_.published->folder / run.file;
      steps_.push_back(Add(
          {.kind = "steps",
           .name = run.file.substr(0, run.file.find('.')),
           .version = kVersions.unpacked,
           .settings = run.hash,
           .make = [packed, hash = run.hash](const StageContext& context) {
             if (HashFileHex(packed) != hash) {
               throw DataError(fmt::format(
                   "{}: not the file of the manifest; fetch the data set again", packed.string()));
             }
             interop::UnpackSteps(packed, context.output / kStepsFile, interop::Unpack::kForests);
           }}));
    }
  }

  void AddSteps() {
    if (config_.published) {
      AddPublishedSteps();
      return;
    }
    if (!config_.campaign) {
      for (std::size_t i = 0; i < config_.steps.size(); ++i) AddGivenSteps(i);
      return;
    }
    const auto campaign = std::make_shared<const CampaignConfig>(*config_.campaign);
    for (RunPlan& plan : PlanRuns(*campaign)) {
      const auto run = std::make_shared<const RunPlan>(std::move(plan));
      const std::string name = fmt::format("run{:02}", run->index);
      pipeline_.runs.push_back(Add({.kind = "runs",
                                    .name = name,
                                    .version = kVersions.run,
                                    .settings = run->config_yaml + run->faults.ToJson(),
                                    .cost_s = RunSeconds(*run),
                                    .exclusive = true,
                                    .attempts = 2,
                                    .make = [campaign, run](const StageContext& context) {
                                      RecordRun(*campaign, *run, context.key, context.output,
                                                context.progress);
                                    }}));
      steps_.push_back(Add({.kind = "steps",
                            .name = name,
                            .version = kVersions.steps,
                            .inputs = {pipeline_.runs.back()},
                            .make = [](const StageContext& context) {
                              dataset::BuildStepsFile(context.inputs[0],
                                                      context.output / kStepsFile);
                            }}));
    }
  }

  void AddGivenSteps(std::size_t index) {
    const fs::path path = config_.steps[index];
    if (!fs::is_regular_file(path)) {
      throw ConfigError(
          fmt::format("steps file '{}' is not there; record a campaign or fetch the data set first",
                      path.string()));
    }
    steps_.push_back(Add({.kind = "steps",
                          .name = fmt::format("run{:02}", index),
                          .version = kVersions.steps,
                          .settings = HashFileHex(path),
                          .make = [path](const StageContext& context) {
                            fs::copy_file(path, context.output / kStepsFile);
                          }}));
  }

  void AddBaselineAndSlices() {
    const std::vector<StageId> steps = InOrder(steps_);
    baseline_ = Add({.kind = "baseline",
                     .name = "training runs",
                     .version = kVersions.baseline,
                     .inputs = Training(steps),
                     .make = [count = roles_.train.size()](const StageContext& context) {
                       dataset::FitBaselineStage(Files(context, {0, count}, kStepsFile),
                                                 context.output / kBaselineFile);
                     }});
    const slice::SliceOptions options = config_.slice;
    const std::string settings =
        fmt::format("{} {} {} {} {} {} {} {} {} {}", options.suspects, options.node_budget,
                    options.neighbours, options.instances, options.log_budget, options.ancestors,
                    options.subtrees, options.peers, options.fill, options.logs);
    for (const StageId step : steps) {
      slices_.push_back(Add({.kind = "slices",
                             .name = pipeline_.plan.At(step).name,
                             .version = kVersions.slices,
                             .settings = settings,
                             .inputs = {step, baseline_},
                             .make = [options](const StageContext& context) {
                               dataset::CutSlicesStage(context.inputs[0] / kStepsFile,
                                                       context.inputs[1] / kBaselineFile,
                                                       context.output / kSlicesFile,
                                                       {.slice = options});
                             }}));
    }
  }

  void AddVocabulary(const VocabularyConfig& vocabulary) {
    Encoded& encoded = encoded_[vocabulary.Name()];
    const std::vector<StageId> steps = InOrder(steps_);
    const tpe::TrainOptions options{
        .mode = vocabulary.mode == "structural" ? tpe::Mode::kStructural : tpe::Mode::kAdjacency,
        .size = static_cast<std::size_t>(vocabulary.size),
        .target_cut = vocabulary.cut};
    encoded.vocabulary = Add({.kind = "vocabularies",
                              .name = vocabulary.Name(),
                              .version = kVersions.vocabulary,
                              .settings = vocabulary.Name(),
                              .inputs = Training(slices_),
                              .make = [options](const StageContext& context) {
                                dataset::TrainVocabularyStage(
                                    Files(context, {0, context.inputs.size()}, kSlicesFile),
                                    context.output / kVocabularyFile, options);
                              }});
    for (std::size_t i = 0; i < steps.size(); ++i) {
      encoded.tokens.push_back(
          Add({.kind = "tokens",
               .name = fmt::format("{} {}", vocabulary.Name(), pipeline_.plan.At(steps[i]).name),
               .version = kVersions.tokens,
               .inputs = {steps[i], slices_[i], encoded.vocabulary},
               .make = [](const StageContext& context) {
                 dataset::EncodeTokensStage(
                     context.inputs[0] / kStepsFile, context.inputs[1] / kSlicesFile,
                     context.inputs[2] / kVocabularyFile, context.output / kTokensFile);
               }}));
    }
  }

  /// A training and its predictions for the held-out runs.
  StageId AddTraining(const std::string& name, const std::vector<StageId>& tokens,
                      const std::string& inputs, int64_t seed) {
    const std::string model_config = ModelConfigFor(config_.model, inputs);
    InputList lists;
    const auto train = lists.Add(Training(tokens));
    const auto validation = lists.Add(Validation(tokens));
    const StageId model = Add({.kind = "models",
                               .name = fmt::format("{} {} seed {}", name, inputs, seed),
                               .version = kVersions.model,
                               .settings = fmt::format("{} seed {}", model_config, seed),
                               .inputs = lists.ids(),
                               .make = [=](const StageContext& context) {
                                 TrainModel({.train = Files(context, train, kTokensFile),
                                             .validation = Files(context, validation, kTokensFile),
                                             .seed = seed,
                                             .config_json = model_config},
                                            context.output / kModelFolder, context.progress);
                               }});
    pipeline_.models.push_back(model);
    InputList held;
    held.Add(model);
    const auto scored = held.Add(Held(tokens));
    return Add({.kind = "predictions",
                .name = pipeline_.plan.At(model).name,
                .version = kVersions.predictions,
                .inputs = held.ids(),
                .make = [scored](const StageContext& context) {
                  PredictWithModel(context.inputs[0] / kModelFolder,
                                   Files(context, scored, kTokensFile),
                                   context.output / kPredictionsFile, context.progress);
                }});
  }

  void AddPermuted() {
    const std::vector<StageId>& tokens = encoded_.at(config_.main.Name()).tokens;
    const uint64_t seed = config_.split_seed;
    for (const StageId run : tokens) {
      permuted_.push_back(Add({.kind = "permuted",
                               .name = pipeline_.plan.At(run).name,
                               .version = kVersions.permuted,
                               .settings = fmt::format("seed {}", seed),
                               .inputs = {run},
                               .make = [seed](const StageContext& context) {
                                 PermuteLabels(context.inputs[0] / kTokensFile, seed,
                                               context.output / kTokensFile);
                               }}));
    }
    permuted_predictions_.push_back(
        AddTraining("permuted labels", permuted_, "full", config_.seeds.front()));
  }

  bool IsWanted(const VocabularyConfig& vocabulary, const std::string& inputs) const {
    if (inputs == "full" && vocabulary == config_.main) return true;
    return std::any_of(config_.sweep.begin(), config_.sweep.end(), [&](const SweepRow& row) {
      return row.vocabulary == vocabulary && row.inputs == inputs;
    });
  }

  void AddModels(const VocabularyConfig& vocabulary) {
    Encoded& encoded = encoded_.at(vocabulary.Name());
    for (const char* inputs : {"full", "tokens"}) {
      if (!IsWanted(vocabulary, inputs)) continue;
      for (const int64_t seed : config_.seeds) {
        encoded.predictions[inputs].push_back(
            AddTraining(vocabulary.Name(), encoded.tokens, inputs, seed));
      }
    }
  }

  /// Inputs of one row of the tables, resolved when the stage runs.
  struct RowInputs {
    VocabularyConfig vocabulary;
    std::string inputs;
    std::pair<std::size_t, std::size_t> predictions, tokens;
    std::size_t vocabulary_stage;

    ScoredPredictions Resolve(const StageContext& context) const {
      return {.vocabulary = vocabulary,
              .inputs = inputs,
              .predictions = Files(context, predictions, kPredictionsFile),
              .tokens = Files(context, tokens, kTokensFile),
              .vocabulary_file = context.inputs[vocabulary_stage] / kVocabularyFile};
    }
  };

  RowInputs AddRow(const VocabularyConfig& vocabulary, const std::string& inputs,
                   InputList& lists) const {
    const Encoded& encoded = encoded_.at(vocabulary.Name());
    RowInputs row{.vocabulary = vocabulary, .inputs = inputs};
    row.predictions = lists.Add(encoded.predictions.at(inputs));
    row.tokens = lists.Add(encoded.tokens);
    row.vocabulary_stage = lists.Add(encoded.vocabulary);
    return row;
  }

  StageId AddBaselines() {
    const std::vector<StageId>& main_tokens = encoded_.at(config_.main.Name()).tokens;
    InputList lists;
    const auto steps = lists.Add(InOrder(steps_));
    const auto slices = lists.Add(slices_);
    const auto tokens = lists.Add(main_tokens);
    const std::size_t train = roles_.train.size();
    const std::vector<int64_t> seeds = config_.seeds;
    return Add({.kind = "baselines",
                .name = "all methods",
                .version = kVersions.baselines,
                .settings = fmt::format("{} seeds, first {}", seeds.size(), seeds.front()),
                .inputs = lists.ids(),
                .make = [=](const StageContext& context) {
                  PredictBaselines({.steps = Files(context, steps, kStepsFile),
                                    .slices = Files(context, slices, kSlicesFile),
                                    .tokens = Files(context, tokens, kTokensFile),
                                    .train = train,
                                    .seeds = seeds},
                                   context.output, context.progress);
                }});
  }

  StageId AddSplits() {
    InputList lists;
    const auto steps = lists.Add(InOrder(steps_));
    const auto tokens = lists.Add(encoded_.at(config_.main.Name()).tokens);
    const std::size_t train = roles_.train.size(), validation = roles_.validation.size();
    const uint64_t seed = config_.split_seed;
    return Add({.kind = "splits",
                .name = "by run",
                .version = kVersions.split,
                .settings = fmt::format("{} {} seed {}", train, validation, seed),
                .inputs = lists.ids(),
                .make = [=](const StageContext& context) {
                  WriteSplitOf(Files(context, steps, kStepsFile),
                               Files(context, tokens, kTokensFile), train, validation, seed,
                               context.output / kSplitsFile);
                }});
  }

  /// Instead of everything that learns: what the campaign's faults did.
  void AddFaultTables() {
    InputList lists;
    const auto runs = lists.Add(pipeline_.runs);
    const auto steps = lists.Add(steps_);
    const std::string name = config_.name, hash = HashHex(config_.canonical);
    pipeline_.metrics =
        Add({.kind = "metrics",
             .name = name,
             .version = kVersions.faults,
             .settings = "fault tables " + hash,
             .inputs = lists.ids(),
             .make = [=](const StageContext& context) {
               ValidateFaults(Files(context, runs, ""), Files(context, steps, kStepsFile), name,
                              hash, context.output / kMetricsFile);
             }});
  }

  void AddMetrics() {
    InputList lists;
    const std::size_t splits = lists.Add(splits_);
    const std::size_t baselines = lists.Add(AddBaselines());
    const RowInputs main = AddRow(config_.main, "full", lists);
    std::vector<RowInputs> sweep;
    for (const SweepRow& row : config_.sweep)
      sweep.push_back(AddRow(row.vocabulary, row.inputs, lists));
    const auto permuted = lists.Add(permuted_);
    const auto permuted_predictions = lists.Add(permuted_predictions_);
    const std::string name = config_.name, hash = HashHex(config_.canonical);
    const auto length = static_cast<std::size_t>(config_.model.length);
    const std::size_t train = roles_.train.size(), validation = roles_.validation.size();
    pipeline_.metrics =
        Add({.kind = "metrics",
             .name = name,
             .version = kVersions.metrics,
             .settings = hash,
             .inputs = lists.ids(),
             .make = [=](const StageContext& context) {
               MetricsInputs inputs{
                   .splits = context.inputs[splits] / kSplitsFile,
                   .baselines = context.inputs[baselines],
                   .main = main.Resolve(context),
                   .permuted_tokens = Files(context, permuted, kTokensFile),
                   .permuted_predictions = Files(context, permuted_predictions, kPredictionsFile),
                   .train = train,
                   .validation = validation,
                   .length = length};
               for (const RowInputs& row : sweep) inputs.sweep.push_back(row.Resolve(context));
               ComputeMetrics(inputs, name, hash, context.output / kMetricsFile, context.progress);
             }});
  }

  const ExperimentConfig& config_;
  const CostHistory& history_;
  Pipeline pipeline_;
  RunRoles roles_;
  std::vector<std::size_t> in_order_;
  std::vector<StageId> steps_;  ///< by run
  StageId baseline_{}, splits_{};
  std::vector<StageId> slices_;  ///< in order of roles, as all that follows
  std::map<std::string, Encoded> encoded_;
  std::vector<StageId> permuted_, permuted_predictions_;
};

}  // namespace

namespace {

RunRoles RolesOf(const PublishedSet& set) {
  RunRoles roles;
  const std::vector<PublishedRun> runs = set.MainRuns();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    (runs[i].role == "train"  ? roles.train
     : runs[i].role == "test" ? roles.test
                              : roles.validation)
        .push_back(i);
  }
  if (roles.train.empty() || roles.validation.empty() || roles.test.empty()) {
    throw ConfigError(fmt::format("data set '{}' has no run that trains, validates or tests",
                                  set.folder.string()));
  }
  return roles;
}

}  // namespace

std::vector<std::size_t> RunRoles::InOrder() const {
  std::vector<std::size_t> order = train;
  order.insert(order.end(), validation.begin(), validation.end());
  order.insert(order.end(), test.begin(), test.end());
  return order;
}

std::string RunRoles::RoleOf(std::size_t run) const {
  const auto holds = [run](const std::vector<std::size_t>& part) {
    return std::find(part.begin(), part.end(), run) != part.end();
  };
  return holds(train) ? "train" : holds(validation) ? "validation" : "test";
}

RunRoles AssignRoles(const ExperimentConfig& config, std::size_t runs) {
  if (config.published) return RolesOf(*config.published);
  std::vector<RunIdentity> identities;
  std::map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < runs; ++i) {
    const std::string name = fmt::format("run{:06}", i);
    identities.push_back({name, name});
    index_of[name] = i;
  }
  const Split split = DrawSplit(identities, config.split, config.split_seed);
  const auto indices = [&](const std::vector<std::string>& names) {
    std::vector<std::size_t> part;
    for (const std::string& name : names) part.push_back(index_of.at(name));
    return part;
  };
  return {.train = indices(split.train),
          .validation = indices(split.validation),
          .test = indices(split.test)};
}

Pipeline BuildPipeline(const ExperimentConfig& config, const CostHistory& history) {
  return Builder(config, history).Build();
}

}  // namespace teller::experiment
