#include "src/cli/tokenize_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "src/core/clock.h"
#include "src/core/error.h"
#include "src/core/text_table.h"
#include "src/dataset/pipeline.h"
#include "src/dataset/slices_file.h"
#include "src/dataset/steps_file.h"
#include "src/dataset/token_text.h"
#include "src/dataset/tokenizer.h"
#include "src/dataset/vocabulary_file.h"

namespace teller::cli {
namespace {

using dataset::SliceStep;
using dataset::StepsFile;
using dataset::StepToken;
using dataset::StepTokens;
using dataset::VocabularyFile;
using Json = nlohmann::ordered_json;

/// One run, encoded in memory, with the sums that are printed.
struct EncodedRun {
  std::vector<StepTokens> steps;
  std::vector<float> scores;  ///< of the localiser; 0 without slices
  std::map<uint32_t, uint64_t> uses;
  uint64_t forest_nodes = 0, forest_atoms = 0, forest_tokens = 0, nodes = 0, tokens = 0,
           unknown = 0;

  void Add(StepTokens step, float score) {
    forest_nodes += step.forest_nodes;
    forest_atoms += step.forest_atoms;
    forest_tokens += step.forest_tokens;
    nodes += step.slice_nodes;
    tokens += step.tokens.size();
    unknown += step.unknown_symbols;
    for (const StepToken& token : step.tokens) ++uses[token.id];
    steps.push_back(std::move(step));
    scores.push_back(score);
  }
  double Compression() const {
    if (forest_nodes == 0) return 0;
    return 1 - static_cast<double>(forest_tokens) / static_cast<double>(forest_nodes);
  }
  /// Entries by use, most used first.
  std::vector<std::pair<uint32_t, uint64_t>> MostUsed(int top) const {
    std::vector<std::pair<uint32_t, uint64_t>> order(uses.begin(), uses.end());
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    if (static_cast<int>(order.size()) > top)
      order.resize(static_cast<std::size_t>(std::max(0, top)));
    return order;
  }
};

std::vector<RankId> RanksOf(const StepsFile& run) {
  std::set<RankId> ranks;
  for (const auto& step : run.run.steps) ranks.insert(step.ranks.begin(), step.ranks.end());
  return {ranks.begin(), ranks.end()};
}

std::vector<SliceStep> ReadSteps(const TokenizeOptions& options, const StepsFile& run) {
  if (!options.slices.empty()) {
    dataset::SlicesFile slices = dataset::ReadSlices(options.slices);
    if (slices.run_id != run.run.run_id || slices.symbols != run.run.symbols.Strings()) {
      throw DataError(fmt::format("{}: slices of run '{}', expected '{}'", options.slices,
                                  slices.run_id, run.run.run_id));
    }
    return std::move(slices.steps);
  }
  std::vector<SliceStep> steps;
  for (std::size_t s = 0; s < run.run.steps.size(); ++s) {
    if (run.forest[s]) steps.push_back(dataset::WholeStep(run.run.steps[s]));
  }
  return steps;
}

EncodedRun Encode(const TokenizeOptions& options, const StepsFile& run,
                  const VocabularyFile& words) {
  const std::vector<std::string> symbols = run.run.symbols.Strings();
  const std::vector<RankId> ranks = RanksOf(run);
  dataset::Tokenizer tokenizer(words.vocabulary, symbols, dataset::ParseBarriers(options.barriers),
                               options.seed);
  std::unordered_map<int64_t, const reconstruct::StepForest*> forests;
  for (const auto& step : run.run.steps) forests.emplace(step.engine_step, &step);
  EncodedRun encoded;
  for (const SliceStep& step : ReadSteps(options, run)) {
    const auto found = forests.find(step.engine_step);
    if (found == forests.end()) {
      throw DataError(fmt::format("{}: step {} is not in {}", options.slices, step.engine_step,
                                  options.inputs[0]));
    }
    encoded.Add(tokenizer.Tokenize(*found->second, step, ranks), step.suspects.score);
  }
  return encoded;
}

const StepTokens& StepToExplain(const TokenizeOptions& options, const EncodedRun& run) {
  if (run.steps.empty()) throw DataError(options.inputs[0] + ": no step has a forest to explain");
  if (options.step < 0) {
    const auto most = std::max_element(run.scores.begin(), run.scores.end());
    return run.steps[static_cast<std::size_t>(most - run.scores.begin())];
  }
  for (const StepTokens& step : run.steps) {
    if (step.engine_step == options.step) return step;
  }
  throw ConfigError(
      fmt::format("--step {}: no such step with a forest in {}", options.step, options.inputs[0]));
}

Json ToJson(const TokenizeOptions& options, const EncodedRun& run, const VocabularyFile& words) {
  const tpe::Vocabulary& vocabulary = words.vocabulary;
  Json json = {{"schema_version", 1},
               {"vocabulary",
                {{"hash", dataset::VocabularyHash(vocabulary)},
                 {"mode", tpe::ModeName(vocabulary.mode)},
                 {"entries", vocabulary.entries.size()},
                 {"symbols", vocabulary.symbols.size()},
                 {"exhausted", vocabulary.exhausted}}},
               {"steps", run.steps.size()},
               {"forest_nodes", run.forest_nodes},
               {"forest_atoms", run.forest_atoms},
               {"forest_tokens", run.forest_tokens},
               {"compression", run.Compression()},
               {"slice_nodes", run.nodes},
               {"slice_tokens", run.tokens},
               {"unknown_symbols", run.unknown},
               {"top_tokens", Json::array()}};
  for (const auto& [id, count] : run.MostUsed(options.top)) {
    json["top_tokens"].push_back(
        {{"id", id}, {"count", count}, {"text", dataset::TokenText(vocabulary, id)}});
  }
  if (!options.explain) return json;
  const StepTokens& step = StepToExplain(options, run);
  Json tokens = Json::array();
  for (const StepToken& token : step.tokens) {
    tokens.push_back({{"id", token.id},
                      {"rank", token.rank},
                      {"track", token.track},
                      {"depth", token.depth},
                      {"parent_token", token.parent_token},
                      {"host_ns", token.host_ns},
                      {"device_ns", token.device_ns},
                      {"residual", token.residual},
                      {"text", dataset::TokenText(vocabulary, token.id)}});
  }
  json["step"] = {{"step", step.engine_step}, {"tokens", tokens}};
  return json;
}

void PrintSummary(const EncodedRun& run, const VocabularyFile& words) {
  const tpe::Vocabulary& vocabulary = words.vocabulary;
  fmt::print("{} vocabulary of {} entries ({} symbols{}), {} steps\n",
             tpe::ModeName(vocabulary.mode), vocabulary.entries.size(), vocabulary.symbols.size(),
             vocabulary.exhausted ? ", pairs exhausted" : "", run.steps.size());
  fmt::print(
      "whole steps: {} nodes -> {} tokens, {:.1f} % cut; slices: {} nodes -> {} tokens; "
      "{} nodes of unknown symbols\n",
      run.forest_nodes, run.forest_tokens, 100 * run.Compression(), run.nodes, run.tokens,
      run.unknown);
}

void PrintMostUsed(const TokenizeOptions& options, const EncodedRun& run,
                   const tpe::Vocabulary& vocabulary) {
  fmt::print("\nMost used tokens:\n");
  for (const auto& [id, count] : run.MostUsed(options.top)) {
    fmt::print("#{}, {} times\n", id, count);
    std::string tree = dataset::TokenTree(vocabulary, id);
    for (std::size_t begin = 0, end; begin < tree.size(); begin = end + 1) {
      end = tree.find('\n', begin);
      fmt::print("    {}\n", std::string_view(tree).substr(begin, end - begin));
    }
  }
}

void PrintStep(const StepTokens& step, const tpe::Vocabulary& vocabulary) {
  fmt::print("\nStep {}: {} nodes in {} tokens\n", step.engine_step, step.slice_nodes,
             step.tokens.size());
  TextTable table({"rank", "track", "host", "device", "residual", "token"});
  for (const StepToken& token : step.tokens) {
    bool suspect = false;
    for (uint32_t i = 0; i < token.node_count; ++i) {
      suspect |= step.nodes[token.first_node + i].suspect != 0;
    }
    table.AddRow({std::to_string(token.rank), std::to_string(token.track),
                  FormatDuration(token.host_ns), FormatDuration(token.device_ns),
                  fmt::format("{:.1f}{}", token.residual, suspect ? " *" : ""),
                  std::string(token.depth, '.') + dataset::TokenText(vocabulary, token.id)});
  }
  fmt::print("{}* holds a suspect\n", table.ToText());
}

void Train(const TokenizeOptions& options) {
  const std::vector<std::filesystem::path> slices(options.inputs.begin(), options.inputs.end());
  dataset::TrainVocabularyStage(
      slices, options.vocabulary,
      {.mode = tpe::ParseMode(options.mode), .size = options.size, .target_cut = options.cut},
      options.force);
  const VocabularyFile words = dataset::ReadVocabulary(options.vocabulary);
  if (options.json) {
    fmt::print("{}\n", Json{{"hash", dataset::VocabularyHash(words.vocabulary)},
                            {"entries", words.vocabulary.entries.size()},
                            {"symbols", words.vocabulary.symbols.size()},
                            {"exhausted", words.vocabulary.exhausted},
                            {"sequences", words.sequences},
                            {"atoms", words.vocabulary.corpus_atoms},
                            {"tokens", words.vocabulary.corpus_tokens}}
                           .dump(2));
    return;
  }
  fmt::print("{}: {} entries ({} symbols{}) from {} atoms in {} sequences\n", options.vocabulary,
             words.vocabulary.entries.size(), words.vocabulary.symbols.size(),
             words.vocabulary.exhausted ? ", pairs exhausted" : "", words.vocabulary.corpus_atoms,
             words.sequences);
}

void Check(const TokenizeOptions& options) {
  if (options.train) return;
  if (options.inputs.size() != 1) {
    throw ConfigError("teller tokenize: expected one steps.h5 (several files only with --train)");
  }
  if (!options.output.empty() && options.slices.empty()) {
    throw ConfigError("teller tokenize: --output needs --slices");
  }
}

}  // namespace

void AddTokenizeCommand(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand(
      "tokenize", "Encode a run with a vocabulary (vocabulary.json), or train one");
  command
      ->add_option("inputs", options->inputs,
                   "A run's steps.h5; with --train slices.h5 files, or steps.h5 for whole steps")
      ->required();
  command->add_option("--vocabulary", options->vocabulary, "vocabulary.json to use, or to write")
      ->required();
  command->add_flag("--train", options->train, "Train a vocabulary on the slices and write it");
  command->add_option("--mode", options->mode, "structural, adjacency or adjacency-published")
      ->capture_default_str();
  command->add_option("--size", options->size, "Entries wanted, symbols included")
      ->capture_default_str();
  command
      ->add_option("--cut", options->cut,
                   "Stop training once this share of the nodes is saved; 0: at --size only")
      ->capture_default_str();
  command->add_option("--slices", options->slices,
                      "The run's slices.h5; else whole steps are encoded (--output needs slices)");
  command->add_option("-o,--output", options->output, "tokens.h5 to write");
  command
      ->add_option("--barriers", options->barriers,
                   "What never merges: none, suspects (preserve) or random")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of random barriers")->capture_default_str();
  command->add_flag("--explain", options->explain,
                    "Print a step as readable fragments, and the most used tokens as trees");
  command->add_option("--step", options->step,
                      "Engine step to explain; else the one with the highest score, or the first");
  command->add_option("--top", options->top, "Most used tokens to show")->capture_default_str();
  command->add_flag("--force", options->force, "Overwrite existing output");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { RunTokenize(*options); });
}

void RunTokenize(const TokenizeOptions& options) {
  Check(options);
  if (options.train) {
    Train(options);
    return;
  }
  if (!options.output.empty()) {
    dataset::EncodeTokensStage(
        options.inputs[0], options.slices, options.vocabulary, options.output,
        {.barriers = dataset::ParseBarriers(options.barriers), .seed = options.seed},
        options.force);
  }
  const VocabularyFile words = dataset::ReadVocabulary(options.vocabulary);
  const EncodedRun run = Encode(options, dataset::ReadSteps(options.inputs[0]), words);
  if (options.json) {
    fmt::print("{}\n",
               ToJson(options, run, words).dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  PrintSummary(run, words);
  if (!options.explain) return;
  PrintStep(StepToExplain(options, run), words.vocabulary);
  PrintMostUsed(options, run, words.vocabulary);
}

}  // namespace teller::cli
