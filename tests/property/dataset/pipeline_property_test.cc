#include <gtest/gtest.h>

#include <map>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/dataset/baseline_file.h"
#include "src/dataset/pipeline.h"
#include "src/dataset/steps_file.h"
#include "src/dataset/vocabulary_file.h"
#include "tests/support/forest_generator.h"
#include "tests/support/temporary_folder.h"

namespace teller::dataset {
namespace {

using Path = std::filesystem::path;

/// Three training runs and one test run with a fault, through all stages; made once.
class PipelinePropertyTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing_support::TemporaryFolder;
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const std::string name = "run" + std::to_string(seed);
      auto file = testing_support::GenerateRun({.seed = seed,
                                                .run_id = name,
                                                .steps = 120,
                                                .layers = 4,
                                                .calibration_steps = 40,
                                                .delays = {{.first_step = 60, .last_step = 90}}});
      file.forest[7] = 0;  // as in the published data set
      file.run.steps[7].nodes.clear();
      file.run.steps[7].edges.clear();
      file.run.steps[7].tracks.clear();
      file.run.steps[7].logs.clear();
      WriteSteps(*folder_ / (name + ".steps.h5"), file);
    }
    const std::vector<Path> training{Steps(1), Steps(2), Steps(3)};
    FitBaselineStage(training, *folder_ / "baseline.h5");
    std::vector<Path> slices;
    for (int run = 1; run <= 4; ++run) {
      CutSlicesStage(Steps(run), *folder_ / "baseline.h5", Slices(run),
                     {.slice = {.node_budget = 150}});
      if (run < 4) slices.push_back(Slices(run));
    }
    for (const auto mode :
         {tpe::Mode::kStructural, tpe::Mode::kAdjacency, tpe::Mode::kAdjacencyPublished}) {
      TrainVocabularyStage(slices, Vocabulary(mode), {.mode = mode, .size = 128});
    }
  }
  static void TearDownTestSuite() { delete folder_; }

  static Path Steps(int run) { return *folder_ / ("run" + std::to_string(run) + ".steps.h5"); }
  static Path Slices(int run) { return *folder_ / ("run" + std::to_string(run) + ".slices.h5"); }
  static Path Vocabulary(tpe::Mode mode) {
    return *folder_ / (std::string(tpe::ModeName(mode)) + ".json");
  }
  static TokensFile Encode(tpe::Mode mode, Barriers barriers) {
    EncodeTokensStage(Steps(4), Slices(4), Vocabulary(mode), *folder_ / "tokens.h5",
                      {.barriers = barriers}, /*force=*/true);
    return ReadTokens(*folder_ / "tokens.h5");
  }

  static testing_support::TemporaryFolder* folder_;
};
testing_support::TemporaryFolder* PipelinePropertyTest::folder_ = nullptr;

void ExpectTimesAddUp(const reconstruct::StepForest& forest, const StepTokens& tokens) {
  std::map<int, int64_t> host, device;
  for (const auto& node : forest.nodes) {
    host[node.track] += node.host_self_ns;
    device[node.track] += node.device_busy_ns;
  }
  for (const StepToken& token : tokens.tokens) {
    host[token.track] -= token.host_ns;
    device[token.track] -= token.device_ns;
  }
  for (const auto& [track, left] : host) ASSERT_EQ(left, 0);
  for (const auto& [track, left] : device) ASSERT_EQ(left, 0);
}

/// Every node below a token is found again, and a token's parent is its first node's parent in the
/// slice.
void ExpectPointersHold(const SliceStep& step, const StepTokens& tokens) {
  ASSERT_EQ(tokens.nodes.size(), step.slice.nodes.size());
  uint32_t next = 0;
  for (const StepToken& token : tokens.tokens) {
    ASSERT_EQ(token.first_node, next);
    next += token.node_count;
    if (token.node_count == 0) continue;
    const auto& first = step.slice.nodes[token.first_node];
    ASSERT_EQ(tokens.nodes[token.first_node].node, first.node);
    ASSERT_EQ(token.depth, first.depth);
    ASSERT_EQ(token.parent_token < 0, first.parent < 0);
    if (first.parent < 0) continue;
    const StepToken& parent = tokens.tokens[static_cast<std::size_t>(token.parent_token)];
    ASSERT_EQ(tokens.nodes[parent.first_node + token.parent_node].node,
              step.slice.nodes[static_cast<std::size_t>(first.parent)].node);
  }
  ASSERT_EQ(next, tokens.nodes.size());
}

TEST_F(PipelinePropertyTest, TokensKeepTimesAndParentsInEveryMode) {
  const StepsFile steps = ReadSteps(Steps(4));
  const SlicesFile slices = ReadSlices(Slices(4));
  ASSERT_EQ(slices.steps.size(), 119u);  // one step has no forest
  for (const auto mode :
       {tpe::Mode::kStructural, tpe::Mode::kAdjacency, tpe::Mode::kAdjacencyPublished}) {
    for (const auto barriers : {Barriers::kNone, Barriers::kSuspects, Barriers::kRandom}) {
      SCOPED_TRACE(std::string(tpe::ModeName(mode)) + " " + std::string(BarriersName(barriers)));
      const TokensFile tokens = Encode(mode, barriers);
      ASSERT_EQ(tokens.steps.size(), slices.steps.size());
      for (std::size_t s = 0; s < tokens.steps.size(); ++s) {
        const auto& forest = steps.run.steps[static_cast<std::size_t>(tokens.steps[s].engine_step)];
        ASSERT_EQ(forest.engine_step, tokens.steps[s].engine_step);
        ExpectTimesAddUp(forest, tokens.steps[s]);
        ExpectPointersHold(slices.steps[s], tokens.steps[s]);
        ASSERT_EQ(tokens.steps[s].forest_nodes, forest.nodes.size());
        ASSERT_EQ(tokens.steps[s].unknown_symbols, 0u);
        ASSERT_EQ(tokens.steps[s].times_add_up, 1);
        ASSERT_EQ(tokens.steps[s].decodes, mode != tpe::Mode::kAdjacencyPublished);
        ASSERT_EQ(tokens.steps[s].localizer.size(), tokens.localizer_names.size());
      }
    }
  }
}

TEST_F(PipelinePropertyTest, DecodingGivesTheSliceBack) {
  const SlicesFile slices = ReadSlices(Slices(4));
  for (const auto mode : {tpe::Mode::kStructural, tpe::Mode::kAdjacency}) {
    const VocabularyFile words = ReadVocabulary(Vocabulary(mode));
    const TokensFile tokens = Encode(mode, Barriers::kSuspects);
    for (std::size_t s = 0; s < tokens.steps.size(); ++s) {
      std::size_t node = 0;
      std::vector<tpe::Token> track;
      const auto decode = [&] {
        const tpe::Sequence decoded = tpe::Decode(words.vocabulary, track);
        const std::size_t base = node;
        const auto parents = tpe::ParentsOf(decoded);
        for (std::size_t i = 0; i < decoded.size(); ++i, ++node) {
          const auto& kept = slices.steps[s].slice.nodes[node];
          ASSERT_EQ(words.vocabulary.symbols[decoded[i].symbol],
                    slices.symbols[Index(slices.steps[s].context[node].symbol)]);
          ASSERT_EQ(decoded[i].depth, kept.depth);
          ASSERT_EQ(parents[i] < 0 ? -1 : parents[i] + static_cast<int32_t>(base), kept.parent);
        }
        track.clear();
      };
      for (std::size_t t = 0; t < tokens.steps[s].tokens.size(); ++t) {
        const StepToken& token = tokens.steps[s].tokens[t];
        if (t > 0 && token.track != tokens.steps[s].tokens[t - 1].track) decode();
        track.push_back({.id = token.id, .depth = token.depth});
      }
      decode();
      ASSERT_EQ(node, slices.steps[s].slice.nodes.size());
    }
  }
}

TEST_F(PipelinePropertyTest, PreserveLeavesEverySuspectATokenOfItsOwn) {
  const TokensFile tokens = Encode(tpe::Mode::kStructural, Barriers::kSuspects);
  int suspects = 0;
  for (const StepTokens& step : tokens.steps) {
    for (const StepToken& token : step.tokens) {
      for (uint32_t i = 0; i < token.node_count; ++i) {
        if (step.nodes[token.first_node + i].suspect == 0) continue;
        ASSERT_EQ(token.node_count, 1u);
        ++suspects;
      }
    }
  }
  EXPECT_EQ(suspects, 119 * 8);
}

TEST_F(PipelinePropertyTest, FaultyStepsAreFoundAndTheirNodesKept) {
  const StepsFile steps = ReadSteps(Steps(4));
  const SlicesFile slices = ReadSlices(Slices(4));
  std::size_t hits = 0, kept = 0;
  int first = 0, faulty = 0;
  for (const SliceStep& step : slices.steps) {
    const auto s = static_cast<std::size_t>(step.engine_step);
    if (steps.labels[s].status != LabelStatus::kPositive) continue;
    ++faulty;
    hits += steps.labels[s].hit_nodes.size();
    kept += slice::CountKept(step.slice, steps.labels[s].hit_nodes);
    const auto& named = steps.run.steps[s].nodes[Index(step.suspects.candidates[0].node)];
    first += steps.run.symbols.View(StringId{static_cast<uint32_t>(named.symbol)}) == "linear";
  }
  EXPECT_EQ(faulty, 30);
  EXPECT_GE(first, 27);
  EXPECT_GE(kept, hits * 95 / 100);
}

TEST_F(PipelinePropertyTest, VocabularyFileDoesNotDependOnTheOrderOfFiles) {
  const std::vector<Path> shuffled{Slices(3), Slices(1), Slices(2)};
  TrainVocabularyStage(shuffled, *folder_ / "again.json", {.size = 128});
  EXPECT_EQ(HashFileHex(*folder_ / "again.json"), HashFileHex(Vocabulary(tpe::Mode::kStructural)));
}

TEST_F(PipelinePropertyTest, WholeStepsTrainAVocabularyThatCutsWholeSteps) {
  TrainVocabularyStage(std::vector<Path>{Steps(1), Steps(2), Steps(3)}, *folder_ / "whole.json",
                       {.size = 5000, .target_cut = 0.84});
  const VocabularyFile words = ReadVocabulary(*folder_ / "whole.json");
  EXPECT_FALSE(words.vocabulary.exhausted);
  EXPECT_LE(words.vocabulary.corpus_tokens * 100, words.vocabulary.corpus_atoms * 16);
  EncodeTokensStage(Steps(4), Slices(4), *folder_ / "whole.json", *folder_ / "tokens.h5", {},
                    /*force=*/true);
  uint64_t nodes = 0, tokens = 0;
  for (const StepTokens& step : ReadTokens(*folder_ / "tokens.h5").steps) {
    nodes += step.forest_nodes;
    tokens += step.forest_tokens;
  }
  EXPECT_LE(tokens * 100, nodes * 17);  // an unseen run of the same engine
}

TEST_F(PipelinePropertyTest, UnknownSymbolsAreSingleTokensAndCounted) {
  StepsFile file = testing_support::GenerateRun({.seed = 9, .run_id = "foreign", .steps = 5});
  std::vector<std::string> symbols = file.run.symbols.Strings();
  for (std::string& symbol : symbols) {
    if (symbol == "rms_norm") symbol = "never_seen";
  }
  file.run.symbols = StringInterner(symbols);
  WriteSteps(*folder_ / "foreign.steps.h5", file);
  CutSlicesStage(*folder_ / "foreign.steps.h5", *folder_ / "baseline.h5",
                 *folder_ / "foreign.slices.h5");
  EncodeTokensStage(*folder_ / "foreign.steps.h5", *folder_ / "foreign.slices.h5",
                    Vocabulary(tpe::Mode::kStructural), *folder_ / "foreign.tokens.h5");
  const TokensFile tokens = ReadTokens(*folder_ / "foreign.tokens.h5");
  EXPECT_EQ(tokens.steps[0].unknown_symbols, 8u);  // two ranks, two layers, two a layer
  uint32_t single = 0;
  for (const StepToken& token : tokens.steps[0].tokens)
    single += token.id == 0 && token.node_count == 1;
  EXPECT_EQ(single, 8u);
}

TEST_F(PipelinePropertyTest, FilesThatDoNotBelongTogetherAreRefused) {
  EXPECT_THROW(
      EncodeTokensStage(Steps(3), Slices(4), Vocabulary(tpe::Mode::kStructural), *folder_ / "x.h5"),
      DataError);
  EXPECT_THROW(CutSlicesStage(Steps(3), Slices(4), *folder_ / "x.h5"), DataError);
  EXPECT_THROW(
      TrainVocabularyStage(std::vector<Path>{*folder_ / "baseline.h5"}, *folder_ / "x.json"),
      DataError);
  EXPECT_THROW(FitBaselineStage(std::vector<Path>{Slices(1)}, *folder_ / "x.h5"), DataError);
  EXPECT_THROW(FitBaselineStage({}, *folder_ / "x.h5"), DataError);
  EXPECT_FALSE(std::filesystem::exists(*folder_ / "x.h5"));
}

}  // namespace
}  // namespace teller::dataset
