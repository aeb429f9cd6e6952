#include "src/dataset/steps_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "src/core/error.h"
#include "src/dataset/steps_schema.h"
#include "src/h5/file.h"
#include "tests/support/schema_document.h"
#include "tests/support/temporary_folder.h"

namespace teller::dataset {
namespace {

using reconstruct::StepForest;
using ::testing::HasSubstr;

// Two steps, the second without a forest; every field differs from its default somewhere.
StepsFile Example() {
  StepsFile file;
  file.run.run_id = "run7";
  file.run.workload = "reference";
  const SymbolId root{0}, leaf{1};
  file.run.symbols = StringInterner({"execute", "linear"});
  StepForest step{.engine_step = 5,
                  .begin_ns = 1000,
                  .end_ns = 9000,
                  .phase = reconstruct::Phase::kMixed,
                  .batch_size = 3,
                  .context_tokens = -1};
  step.ranks = {RankId{0}, RankId{1}};
  step.rank_begin_ns = {1000, 1100};
  step.rank_end_ns = {8000, 9000};
  step.requests = {"a", "b"};
  step.tracks = {{RankId{0}, 0, false}, {RankId{1}, 2, true}};
  step.nodes = {
      {root, 0, trace::Layer::kEngine, trace::Kind::kRange, kNoNode, 0, 0, 7000, 3000, 0, -1, -1,
       -1},
      {leaf, 0, trace::Layer::kBackend, trace::Kind::kOperator, NodeId{0}, 1, 10, 4000, 4000, 0, 10,
       64, 7},
      {leaf, 1, trace::Layer::kDevice, trace::Kind::kKernel, kNoNode, 0, -5, 100, 0, 100, 3, 1, 2}};
  step.edges = {{NodeId{1}, NodeId{2}, reconstruct::EdgeType::kCollective}};
  step.logs = {{RankId{1}, -7, "Added request <id>."}};
  file.run.steps = {step, {.engine_step = 6, .begin_ns = 10000, .end_ns = 11000}};
  StepLabel label{LabelStatus::kPositive, kReasonEdge, 2,         4,      "pause", "host",
                  View::kVertical,        5,           RankId{1}, "comm", "x"};
  label.recorded_ns = {0, 300};
  label.hit_nodes = {NodeId{1}, NodeId{2}};
  file.labels = {label, {}};
  file.number_names = {"step_ratio", "busy"};
  file.numbers = {{1.5f, 0.25f}, {1.0f, 0.5f}};
  file.forest = {1, 0};
  file.clock_aligned = true;
  file.clock_residual_ns = 12.5;
  file.engine = "reference";
  file.inputs = {{"trace.h5", "00ff"}};
  file.stats = {{"events_outside_steps", 3}};
  return file;
}

template <typename T>
void ExpectSame(const h5::Column& x, const h5::Column& y) {
  EXPECT_EQ(x.ReadAll<T>(), y.ReadAll<T>());
}

void ExpectSameValues(const h5::Column& x, const h5::Column& y, const std::string& type) {
  if (type == "string") {
    EXPECT_EQ(x.ReadStrings(0, x.rows()), y.ReadStrings(0, y.rows()));
    return;
  }
  const std::map<std::string, void (*)(const h5::Column&, const h5::Column&)> by_type = {
      {"int64", ExpectSame<int64_t>},   {"int32", ExpectSame<int32_t>},
      {"uint32", ExpectSame<uint32_t>}, {"uint16", ExpectSame<uint16_t>},
      {"uint8", ExpectSame<uint8_t>},   {"float32", ExpectSame<float>}};
  by_type.at(type)(x, y);
}

// Every column of two files, compared as h5dump would see them.
void ExpectSameColumns(const std::filesystem::path& a, const std::filesystem::path& b) {
  const h5::File first = h5::File::Open(a), second = h5::File::Open(b);
  for (const h5::ColumnSpec& column : kStepsColumns) {
    std::string path = std::string(column.path).substr(1);
    if (path == "numbers/NAME") path = "numbers/busy";
    SCOPED_TRACE(path);
    const h5::Column x = first.root().OpenColumn(path), y = second.root().OpenColumn(path);
    EXPECT_EQ(x.type_name(), column.type);
    ExpectSameValues(x, y, column.type);
  }
}

class StepsFileTest : public testing::Test {
 protected:
  std::string MessageOfReading(const StepsFile& damaged) {
    WriteSteps(folder_ / "damaged.h5", damaged, /*force=*/true);
    try {
      ReadSteps(folder_ / "damaged.h5");
    } catch (const DataError& error) {
      return error.what();
    }
    return {};
  }
  testing_support::TemporaryFolder folder_;
};

TEST_F(StepsFileTest, ReadsWhatWasWritten) {
  WriteSteps(folder_ / "a.h5", Example());
  const StepsFile found = ReadSteps(folder_ / "a.h5");
  WriteSteps(folder_ / "b.h5", found);
  ExpectSameColumns(folder_ / "a.h5", folder_ / "b.h5");

  EXPECT_EQ(found.run.run_id, "run7");
  EXPECT_EQ(found.run.workload, "reference");
  EXPECT_EQ(found.engine, "reference");
  EXPECT_TRUE(found.clock_aligned);
  EXPECT_EQ(found.clock_residual_ns, 12.5);
  EXPECT_EQ(found.inputs, Example().inputs);
  EXPECT_EQ(found.stats, Example().stats);
  ASSERT_EQ(found.run.steps.size(), 2u);
  const StepForest& step = found.run.steps[0];
  EXPECT_EQ(step.phase, reconstruct::Phase::kMixed);
  EXPECT_EQ(step.rank_end_ns, (std::vector<int64_t>{8000, 9000}));
  EXPECT_EQ(step.requests, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(step.tracks[1].device);
  EXPECT_EQ(step.nodes[1].bytes, 64);
  EXPECT_EQ(step.nodes[2].begin_ns, -5);
  EXPECT_EQ(step.logs[0].text, "Added request <id>.");
  EXPECT_EQ(found.labels[0].kind, "pause");
  EXPECT_EQ(found.labels[0].recorded_ns, (std::vector<int64_t>{0, 300}));
  EXPECT_EQ(found.labels[0].hit_nodes, (std::vector<NodeId>{NodeId{1}, NodeId{2}}));
  EXPECT_TRUE(found.run.steps[1].nodes.empty());
  EXPECT_EQ(found.forest, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(found.numbers, Example().numbers);
  EXPECT_EQ(found.number_names, Example().number_names);
}

TEST_F(StepsFileTest, ReadsARunWithoutSteps) {
  StepsFile empty;
  empty.number_names = {"x"};
  WriteSteps(folder_ / "e.h5", empty);
  EXPECT_TRUE(ReadSteps(folder_ / "e.h5").run.steps.empty());
}

TEST_F(StepsFileTest, RefusesDamagedReferences) {
  StepsFile file = Example();
  file.run.steps[0].nodes[1].symbol = SymbolId{2};
  EXPECT_THAT(MessageOfReading(file), HasSubstr("step 0: a node's symbol does not exist"));
  file = Example();
  file.run.steps[0].nodes[1].parent = NodeId{1};
  EXPECT_THAT(MessageOfReading(file), HasSubstr("a parent does not come before its child"));
  file = Example();
  file.run.steps[0].nodes[1].depth = 2;
  EXPECT_THAT(MessageOfReading(file), HasSubstr("depth is wrong"));
  file = Example();
  file.run.steps[0].nodes[2].track = 2;
  EXPECT_THAT(MessageOfReading(file), HasSubstr("track does not exist"));
  file = Example();
  file.run.steps[0].edges[0].to = NodeId{3};
  EXPECT_THAT(MessageOfReading(file), HasSubstr("an edge names a node"));
  file = Example();
  file.labels[0].hit_nodes[0] = NodeId{-1};
  EXPECT_THAT(MessageOfReading(file), HasSubstr("a hit names a node"));
  file = Example();
  file.run.steps[0].nodes[0].layer = trace::Layer{7};
  EXPECT_THAT(MessageOfReading(file), HasSubstr("unknown layer"));
}

TEST_F(StepsFileTest, RefusesForeignAndTruncatedFilesAndOverwriting) {
  WriteSteps(folder_ / "a.h5", Example());
  EXPECT_THROW(WriteSteps(folder_ / "a.h5", Example()), ConfigError);
  std::filesystem::resize_file(folder_ / "a.h5", 4000);
  EXPECT_THROW(ReadSteps(folder_ / "a.h5"), DataError);
  h5::File::Create(folder_ / "b.h5").Close();
  EXPECT_THROW(ReadSteps(folder_ / "b.h5"), DataError);
}

TEST_F(StepsFileTest, DocumentListsTheColumnsOfTheSchemaHeader) {
  std::vector<testing_support::DocumentedColumn> constants;
  for (const h5::ColumnSpec& column : kStepsColumns)
    constants.push_back({column.path, column.type, column.unit});
  EXPECT_EQ(testing_support::DocumentedColumns("docs/schema/steps.md"), constants);
}

TEST_F(StepsFileTest, AWrittenFileHasExactlyTheseColumns) {
  WriteSteps(folder_ / "a.h5", Example());
  const h5::File file = h5::File::Open(folder_ / "a.h5");
  std::vector<std::string> found, expected;
  for (const std::string& name : file.root().Children()) {
    if (name == "symbols" || name == "strings" || name == "number_names") {
      found.push_back("/" + name);
      continue;
    }
    for (const std::string& column : file.root().OpenGroup(name).Children()) {
      found.push_back("/" + name + "/" + (name == "numbers" ? "NAME" : column));
    }
  }
  for (const h5::ColumnSpec& column : kStepsColumns) expected.push_back(column.path);
  expected.push_back("/numbers/NAME");  // the example has two
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected));
}

TEST_F(StepsFileTest, TheH5pyExampleReadsAFile) {
  const std::string python = testing_support::PythonWithH5py();
  if (python.empty())
    GTEST_SKIP() << "no Python with h5py: run scripts/setup.sh or set TELLER_VENV";
  WriteSteps(folder_ / "a.h5", Example());
  std::ofstream(folder_ / "example.py")
      << testing_support::CodeBlock("docs/schema/steps.md", "python");
  const std::string command =
      python + " " + (folder_ / "example.py").string() + " " + (folder_ / "a.h5").string();
  EXPECT_EQ(testing_support::OutputOf(command),
            "negative: 1 steps, median 0.001 ms\n"
            "positive: 1 steps, median 0.008 ms\n"
            "nodes of the first step: 3, first symbol: execute\n");
}

}  // namespace
}  // namespace teller::dataset
