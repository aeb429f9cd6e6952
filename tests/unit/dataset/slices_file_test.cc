#include "src/dataset/slices_file.h"

#include <gmock/gmock.h>

#include "src/core/error.h"
#include "src/dataset/slices_schema.h"
#include "tests/support/schema_columns.h"
#include "tests/support/temporary_folder.h"

namespace teller::dataset {
namespace {

using ::testing::HasSubstr;

SlicesFile Example() {
  SlicesFile file;
  file.run_id = "run7";
  file.options = {.suspects = 5,
                  .node_budget = 77,
                  .neighbours = 1,
                  .instances = 9,
                  .log_budget = 3,
                  .ancestors = false,
                  .subtrees = false,
                  .peers = false,
                  .fill = false,
                  .logs = false};
  file.calibrated = false;
  file.symbols = {"forward", "linear"};
  file.inputs = {{"steps.h5", "aa"}, {"baseline.h5", "bb"}};
  SliceStep step;
  step.engine_step = 3;
  step.slice.nodes = {{.node = NodeId{0}, .elided_host_ns = 5, .elided_device_ns = 6},
                      {.node = NodeId{4}, .parent = 0, .depth = 1, .elided = true, .suspect = 1},
                      {.node = NodeId{9}}};
  step.context = {{SymbolId{0}, 0, trace::Layer::kEngine, 0.5f},
                  {SymbolId{1}, 0, trace::Layer::kBackend, 4},
                  {SymbolId{1}, 1, trace::Layer::kDevice, 0}};
  step.slice.edges = {{NodeId{1}, NodeId{2}, reconstruct::EdgeType::kLaunch}};
  step.slice.logs = {2};
  step.suspects.score = 4;
  step.suspects.p_value = 0.25f;
  step.suspects.wait_z = 2;
  step.suspects.undecided = true;
  step.suspects.candidates = {{.node = NodeId{4},
                               .rank = RankId{1},
                               .peer = RankId{0},
                               .measure = localize::Measure::kTransfer,
                               .observed_ns = 9,
                               .expected_ns = 2,
                               .z = 4,
                               .p_value = 0.25f}};
  file.steps = {step, {.engine_step = 4}};
  return file;
}

class SlicesFileTest : public testing::Test {
 protected:
  std::string MessageOfReading(const SlicesFile& damaged) {
    WriteSlices(folder_ / "damaged.h5", damaged, /*force=*/true);
    try {
      ReadSlices(folder_ / "damaged.h5");
    } catch (const DataError& error) {
      return error.what();
    }
    return {};
  }
  testing_support::TemporaryFolder folder_;
};

TEST_F(SlicesFileTest, ReadsWhatWasWritten) {
  WriteSlices(folder_ / "s.h5", Example());
  const SlicesFile found = ReadSlices(folder_ / "s.h5");
  EXPECT_EQ(found.run_id, "run7");
  EXPECT_EQ(found.options.suspects, 5);
  EXPECT_EQ(found.options.node_budget, 77);
  EXPECT_EQ(found.options.neighbours, 1);
  EXPECT_EQ(found.options.instances, 9);
  EXPECT_EQ(found.options.log_budget, 3);
  EXPECT_FALSE(found.options.ancestors || found.options.subtrees || found.options.peers ||
               found.options.fill || found.options.logs || found.calibrated);
  EXPECT_EQ(found.symbols, Example().symbols);
  EXPECT_EQ(found.inputs, Example().inputs);
  ASSERT_EQ(found.steps.size(), 2u);
  const SliceStep& step = found.steps[0];
  EXPECT_EQ(step.engine_step, 3);
  EXPECT_EQ(step.slice.nodes, Example().steps[0].slice.nodes);
  EXPECT_EQ(step.context[1].layer, trace::Layer::kBackend);
  EXPECT_EQ(step.context[1].residual, 4);
  EXPECT_EQ(step.context[2].track, 1);
  EXPECT_EQ(step.slice.edges.size(), 1u);
  EXPECT_EQ(step.slice.logs, (std::vector<uint32_t>{2}));
  EXPECT_EQ(step.suspects.score, 4);
  EXPECT_EQ(step.suspects.p_value, 0.25f);
  EXPECT_TRUE(step.suspects.undecided);
  ASSERT_EQ(step.suspects.candidates.size(), 1u);
  EXPECT_EQ(step.suspects.candidates[0].peer, RankId{0});
  EXPECT_EQ(step.suspects.candidates[0].observed_ns, 9);
}

TEST_F(SlicesFileTest, RefusesDamagedReferences) {
  const auto damage = [&](auto change) {
    SlicesFile file = Example();
    change(file.steps[0]);
    return MessageOfReading(file);
  };
  EXPECT_THAT(damage([](SliceStep& s) { s.slice.nodes[1].node = NodeId{0}; }), HasSubstr("order"));
  EXPECT_THAT(damage([](SliceStep& s) { s.slice.nodes[1].parent = 1; }),
              HasSubstr("before its child"));
  EXPECT_THAT(damage([](SliceStep& s) { s.slice.nodes[1].depth = 2; }),
              HasSubstr("depth is wrong"));
  EXPECT_THAT(damage([](SliceStep& s) { s.context[0].symbol = SymbolId{2}; }), HasSubstr("symbol"));
  EXPECT_THAT(damage([](SliceStep& s) { s.slice.edges[0].to = NodeId{3}; }), HasSubstr("edge"));
  EXPECT_THAT(damage([](SliceStep& s) { s.suspects.candidates[0].node = kNoNode; }),
              HasSubstr("candidate"));
}

TEST_F(SlicesFileTest, DocumentHeaderAndFileAgree) {
  testing_support::ExpectDocumented("docs/schema/slices.md", kSlicesColumns);
  WriteSlices(folder_ / "s.h5", Example());
  testing_support::ExpectColumns(folder_ / "s.h5", kSlicesColumns);
  EXPECT_THROW(WriteSlices(folder_ / "s.h5", Example()), ConfigError);
}

}  // namespace
}  // namespace teller::dataset
