#include "src/dataset/tokens_file.h"

#include <gmock/gmock.h>

#include "src/core/error.h"
#include "src/dataset/tokens_schema.h"
#include "tests/support/schema_columns.h"
#include "tests/support/temporary_folder.h"

namespace teller::dataset {
namespace {

using ::testing::HasSubstr;

TokensFile Example() {
  TokensFile file;
  file.run_id = "run7";
  file.engine = "reference";
  file.mode = "structural";
  file.barriers = "suspects";
  file.vocabulary_hash = "00ff";
  file.vocabulary_size = 9;
  file.symbols = {"forward", "linear"};
  file.ranks = {0, 1};
  file.number_names = {"step_ratio"};
  file.localizer_names = {"score", "z_1"};
  file.inputs = {{"steps.h5", "aa"}};
  StepTokens step;
  step.engine_step = 4;
  step.tokens = {
      {.id = 8, .node_count = 2, .host_ns = 10, .root_ns = 9, .residual = 1.5f, .residual_node = 1},
      {.id = 2,
       .rank = 1,
       .track = 2,
       .layer = 3,
       .depth = 1,
       .parent_token = 0,
       .parent_node = 1,
       .first_node = 2,
       .node_count = 1,
       .device_ns = 7}};
  step.nodes = {{NodeId{0}, SymbolId{0}, 0, 0.5f, 2.0f, 0},
                {NodeId{1}, SymbolId{1}, 0, 1.5f, 1.0f, 1},
                {NodeId{5}, SymbolId{1}, 1, 0, 1.0f, 0}};
  step.log_text = {"INFO a", "WARNING b"};
  step.log_rank = {0, 1};
  step.numbers = {1.25f};
  step.localizer = {3, 4};
  step.forest_nodes = 9;
  step.forest_atoms = 18;
  step.forest_tokens = 4;
  step.slice_nodes = 3;
  step.unknown_symbols = 1;
  step.decodes = 1;
  step.label.status = LabelStatus::kPositive;
  step.label.kind = "pause";
  step.label.hit_nodes = {NodeId{5}};
  step.label.recorded_ns = {0, 99};
  file.steps = {step, {.engine_step = 5, .numbers = {0}, .localizer = {0, 0}}};
  return file;
}

class TokensFileTest : public testing::Test {
 protected:
  std::string MessageOfReading(const TokensFile& damaged) {
    WriteTokens(folder_ / "damaged.h5", damaged, /*force=*/true);
    try {
      ReadTokens(folder_ / "damaged.h5");
    } catch (const DataError& error) {
      return error.what();
    }
    return {};
  }
  testing_support::TemporaryFolder folder_;
};

TEST_F(TokensFileTest, ReadsWhatWasWritten) {
  WriteTokens(folder_ / "t.h5", Example());
  const TokensFile found = ReadTokens(folder_ / "t.h5");
  EXPECT_EQ(found.run_id, "run7");
  EXPECT_EQ(found.engine, "reference");
  EXPECT_EQ(found.mode, "structural");
  EXPECT_EQ(found.barriers, "suspects");
  EXPECT_EQ(found.vocabulary_hash, "00ff");
  EXPECT_EQ(found.vocabulary_size, 9u);
  EXPECT_EQ(found.symbols, Example().symbols);
  EXPECT_EQ(found.ranks, Example().ranks);
  EXPECT_EQ(found.inputs, Example().inputs);
  EXPECT_EQ(found.localizer_names, Example().localizer_names);
  ASSERT_EQ(found.steps.size(), 2u);
  const StepTokens& step = found.steps[0];
  ASSERT_EQ(step.tokens.size(), 2u);
  EXPECT_EQ(step.tokens[0].id, 8u);
  EXPECT_EQ(step.tokens[0].host_ns, 10);
  EXPECT_EQ(step.tokens[0].residual_node, 1u);
  EXPECT_EQ(step.tokens[1].parent_node, 1);
  EXPECT_EQ(step.tokens[1].device_ns, 7);
  EXPECT_EQ(step.tokens[1].layer, 3);
  ASSERT_EQ(step.nodes.size(), 3u);
  EXPECT_EQ(step.nodes[1].suspect, 1);
  EXPECT_EQ(step.nodes[2].node, NodeId{5});
  EXPECT_EQ(step.log_text, Example().steps[0].log_text);
  EXPECT_EQ(step.log_rank, Example().steps[0].log_rank);
  EXPECT_EQ(step.numbers, (std::vector<float>{1.25f}));
  EXPECT_EQ(step.localizer, (std::vector<float>{3, 4}));
  EXPECT_EQ(step.forest_atoms, 18u);
  EXPECT_EQ(step.forest_tokens, 4u);
  EXPECT_EQ(step.unknown_symbols, 1u);
  EXPECT_EQ(step.decodes, 1);
  EXPECT_EQ(step.times_add_up, 0);
  EXPECT_EQ(step.label.kind, "pause");
  EXPECT_EQ(step.label.hit_nodes, (std::vector<NodeId>{NodeId{5}}));
  EXPECT_TRUE(found.steps[1].tokens.empty());
}

TEST_F(TokensFileTest, ReadsARunWithoutSteps) {
  WriteTokens(folder_ / "e.h5", {});
  EXPECT_TRUE(ReadTokens(folder_ / "e.h5").steps.empty());
}

TEST_F(TokensFileTest, RefusesDamagedReferences) {
  const auto damage = [&](auto change) {
    TokensFile file = Example();
    change(file.steps[0]);
    return MessageOfReading(file);
  };
  EXPECT_THAT(damage([](StepTokens& s) { s.tokens[0].id = 9; }),
              HasSubstr("not in the vocabulary"));
  EXPECT_THAT(damage([](StepTokens& s) { s.tokens[0].rank = 2; }),
              HasSubstr("rank does not exist"));
  EXPECT_THAT(damage([](StepTokens& s) { s.tokens[1].node_count = 2; }),
              HasSubstr("nodes are not there"));
  EXPECT_THAT(damage([](StepTokens& s) { s.tokens[1].parent_token = 1; }), HasSubstr("before it"));
  EXPECT_THAT(damage([](StepTokens& s) { s.tokens[1].parent_node = 2; }), HasSubstr("parent node"));
  EXPECT_THAT(damage([](StepTokens& s) { s.tokens[0].residual_node = 2; }), HasSubstr("residual"));
  EXPECT_THAT(damage([](StepTokens& s) { s.nodes[0].symbol = SymbolId{2}; }), HasSubstr("symbol"));
  EXPECT_THAT(damage([](StepTokens& s) { s.log_rank[0] = 2; }), HasSubstr("log line's rank"));
}

TEST_F(TokensFileTest, RefusesForeignAndTruncatedFilesAndOverwriting) {
  WriteTokens(folder_ / "t.h5", Example());
  EXPECT_THROW(WriteTokens(folder_ / "t.h5", Example()), ConfigError);
  std::filesystem::resize_file(folder_ / "t.h5", 4000);
  EXPECT_THROW(ReadTokens(folder_ / "t.h5"), DataError);
  h5::File::Create(folder_ / "b.h5").Close();
  EXPECT_THROW(ReadTokens(folder_ / "b.h5"), DataError);
}

TEST_F(TokensFileTest, DocumentHeaderAndFileAgree) {
  testing_support::ExpectDocumented("docs/schema/tokens.md", kTokensColumns);
  WriteTokens(folder_ / "t.h5", Example());
  testing_support::ExpectColumns(folder_ / "t.h5", kTokensColumns);
}

}  // namespace
}  // namespace teller::dataset
