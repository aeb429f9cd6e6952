#include "src/dataset/slices_file.h"

#include <utility>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/dataset/number_table.h"
#include "src/dataset/record_table.h"
#include "src/dataset/slices_schema.h"

namespace teller::dataset {
namespace {

using localize::Candidate;
using reconstruct::StepEdge;

struct StepRow {
  int64_t engine_step = 0;
  float score = 0, p_value = 0, wait_z = 0;
  bool undecided = false;
  uint32_t node_count = 0, edge_count = 0, log_count = 0, candidate_count = 0;
};
struct NodeRow : slice::SliceNode, NodeContext {};
struct LogRow {
  uint32_t line = 0;
};

constexpr auto kStepFields = [](auto visit) {
  visit("engine_step", &StepRow::engine_step);
  visit("score", &StepRow::score);
  visit("p_value", &StepRow::p_value);
  visit("wait_z", &StepRow::wait_z);
  visit("undecided", &StepRow::undecided);
  visit("node_count", &StepRow::node_count);
  visit("edge_count", &StepRow::edge_count);
  visit("log_count", &StepRow::log_count);
  visit("candidate_count", &StepRow::candidate_count);
};
constexpr auto kNodeFields = [](auto visit) {
  visit("node", &NodeRow::node);
  visit("parent", &NodeRow::parent);
  visit("depth", &NodeRow::depth);
  visit("elided", &NodeRow::elided);
  visit("suspect", &NodeRow::suspect);
  visit("elided_host_ns", &NodeRow::elided_host_ns);
  visit("elided_device_ns", &NodeRow::elided_device_ns);
  visit("symbol", &NodeRow::symbol);
  visit("track", &NodeRow::track);
  visit("layer", &NodeRow::layer);
  visit("residual", &NodeRow::residual);
};
constexpr auto kEdgeFields = [](auto visit) {
  visit("from", &StepEdge::from);
  visit("to", &StepEdge::to);
  visit("type", &StepEdge::type);
};
constexpr auto kLogFields = [](auto visit) { visit("line", &LogRow::line); };
constexpr auto kCandidateFields = [](auto visit) {
  visit("node", &Candidate::node);
  visit("rank", &Candidate::rank);
  visit("peer", &Candidate::peer);
  visit("measure", &Candidate::measure);
  visit("observed_ns", &Candidate::observed_ns);
  visit("expected_ns", &Candidate::expected_ns);
  visit("z", &Candidate::z);
  visit("p_value", &Candidate::p_value);
};

// The rows of all steps, one after another.
struct FlatSlices {
  std::vector<StepRow> steps;
  std::vector<NodeRow> nodes;
  std::vector<StepEdge> edges;
  std::vector<LogRow> logs;
  std::vector<Candidate> candidates;
};

FlatSlices Flatten(const SlicesFile& file) {
  FlatSlices flat;
  const auto count = [](const auto& items) { return static_cast<uint32_t>(items.size()); };
  for (const SliceStep& step : file.steps) {
    const slice::CausalSlice& cut = step.slice;
    TELLER_CHECK(step.context.size() == cut.nodes.size());
    flat.steps.push_back({step.engine_step, step.suspects.score, step.suspects.p_value,
                          step.suspects.wait_z, step.suspects.undecided, count(cut.nodes),
                          count(cut.edges), count(cut.logs), count(step.suspects.candidates)});
    for (std::size_t i = 0; i < cut.nodes.size(); ++i) {
      flat.nodes.push_back({cut.nodes[i], step.context[i]});
    }
    flat.edges.insert(flat.edges.end(), cut.edges.begin(), cut.edges.end());
    for (const uint32_t line : cut.logs) flat.logs.push_back({line});
    flat.candidates.insert(flat.candidates.end(), step.suspects.candidates.begin(),
                           step.suspects.candidates.end());
  }
  return flat;
}

void WriteOptions(h5::Group& root, const SlicesFile& file) {
  const slice::SliceOptions& options = file.options;
  root.SetAttribute("calibrated", int64_t{file.calibrated});
  root.SetAttribute("suspects", int64_t{options.suspects});
  root.SetAttribute("node_budget", int64_t{options.node_budget});
  root.SetAttribute("neighbours", int64_t{options.neighbours});
  root.SetAttribute("instances", int64_t{options.instances});
  root.SetAttribute("log_budget", int64_t{options.log_budget});
  root.SetAttribute("ancestors", int64_t{options.ancestors});
  root.SetAttribute("subtrees", int64_t{options.subtrees});
  root.SetAttribute("peers", int64_t{options.peers});
  root.SetAttribute("fill", int64_t{options.fill});
  root.SetAttribute("logs", int64_t{options.logs});
}

void ReadOptions(const h5::Group& root, SlicesFile& file) {
  slice::SliceOptions& options = file.options;
  const auto number = [&](const char* name) { return static_cast<int>(root.GetInt(name)); };
  file.calibrated = number("calibrated") != 0;
  options.suspects = number("suspects");
  options.node_budget = number("node_budget");
  options.neighbours = number("neighbours");
  options.instances = number("instances");
  options.log_budget = number("log_budget");
  options.ancestors = number("ancestors") != 0;
  options.subtrees = number("subtrees") != 0;
  options.peers = number("peers") != 0;
  options.fill = number("fill") != 0;
  options.logs = number("logs") != 0;
}

// What readers index with must be in range, or a damaged file would crash them.
void CheckStep(const SlicesFile& file, std::size_t index, const std::string& where) {
  const SliceStep& step = file.steps[index];
  const auto require = [&](bool holds, const char* what) {
    if (holds) return;
    throw DataError(where + ": step " + std::to_string(index) + ": " + what +
                    "; the file is damaged");
  };
  const auto count = static_cast<int64_t>(step.slice.nodes.size());
  for (std::size_t i = 0; i < step.slice.nodes.size(); ++i) {
    const slice::SliceNode& node = step.slice.nodes[i];
    const NodeContext& context = step.context[i];
    require(static_cast<int32_t>(node.node) >= 0 &&
                (i == 0 || step.slice.nodes[i - 1].node < node.node),
            "nodes are not in the order of the forest");
    require(Index(context.symbol) < file.symbols.size(), "a node's symbol does not exist");
    require(static_cast<int>(context.layer) < trace::kLayerCount, "unknown layer");
    require(i == 0 || step.context[i - 1].track <= context.track, "nodes are not grouped by track");
    if (node.parent == -1) {
      require(node.depth == 0, "a root's depth is not 0");
      continue;
    }
    require(node.parent >= 0 && node.parent < static_cast<int64_t>(i),
            "a parent does not come before its child");
    const auto parent = static_cast<std::size_t>(node.parent);
    require(step.context[parent].track == context.track &&
                step.slice.nodes[parent].depth + 1 == node.depth,
            "a parent's track or depth is wrong");
  }
  for (const StepEdge& edge : step.slice.edges) {
    require(static_cast<int32_t>(edge.from) >= 0 && static_cast<int32_t>(edge.from) < count &&
                static_cast<int32_t>(edge.to) >= 0 && static_cast<int32_t>(edge.to) < count,
            "an edge names a node that is not there");
    require(edge.type <= reconstruct::EdgeType::kThread, "unknown edge type");
  }
  for (const Candidate& candidate : step.suspects.candidates) {
    require(static_cast<int32_t>(candidate.node) >= 0, "a candidate has no node");
    require(static_cast<int>(candidate.measure) < localize::kMeasureCount, "unknown measure");
  }
}

}  // namespace

void WriteSlices(const std::filesystem::path& path, const SlicesFile& slices, bool force) {
  AtomicFile destination(path, force);
  h5::File file = h5::File::Create(destination.path());
  h5::Group& root = file.root();
  h5::WriteSchema(root, kSlicesSchema, slices.run_id);
  WriteOptions(root, slices);
  StringInterner strings;
  const FlatSlices flat = Flatten(slices);
  WriteTable(root, "steps", PointersTo(flat.steps), strings, kStepFields);
  WriteTable(root, "nodes", PointersTo(flat.nodes), strings, kNodeFields);
  WriteTable(root, "edges", PointersTo(flat.edges), strings, kEdgeFields);
  WriteTable(root, "logs", PointersTo(flat.logs), strings, kLogFields);
  WriteTable(root, "candidates", PointersTo(flat.candidates), strings, kCandidateFields);
  WriteInputs(root, slices.inputs, strings);
  root.WriteStrings("symbols", slices.symbols);
  root.WriteStrings("strings", strings.Strings());
  file.Close();
  destination.Commit();
}

SlicesFile ReadSlices(const std::filesystem::path& path) {
  const h5::File file = h5::File::Open(path);
  const h5::Group& root = file.root();
  h5::CheckSchema(root, kSlicesSchema);
  SlicesFile slices;
  slices.run_id = root.GetString("run_id");
  ReadOptions(root, slices);
  slices.symbols = root.ReadStrings("symbols");
  const TableReader tables(root);
  auto nodes = tables.Deal<NodeRow>("nodes", kNodeFields);
  auto edges = tables.Deal<StepEdge>("edges", kEdgeFields);
  auto logs = tables.Deal<LogRow>("logs", kLogFields);
  auto candidates = tables.Deal<Candidate>("candidates", kCandidateFields);
  for (const StepRow& row : tables.Read<StepRow>("steps", kStepFields)) {
    SliceStep& step = slices.steps.emplace_back();
    step.engine_step = row.engine_step;
    step.suspects.score = row.score;
    step.suspects.p_value = row.p_value;
    step.suspects.wait_z = row.wait_z;
    step.suspects.undecided = row.undecided;
    for (const NodeRow& node : nodes.Take(row.node_count)) {
      step.slice.nodes.push_back(node);
      step.context.push_back(node);
    }
    step.slice.edges = edges.Take(row.edge_count);
    for (const LogRow& log : logs.Take(row.log_count)) step.slice.logs.push_back(log.line);
    step.suspects.candidates = candidates.Take(row.candidate_count);
    CheckStep(slices, slices.steps.size() - 1, path.string());
  }
  nodes.ExpectEmpty();
  edges.ExpectEmpty();
  logs.ExpectEmpty();
  candidates.ExpectEmpty();
  slices.inputs = ReadInputs(tables);
  return slices;
}

}  // namespace teller::dataset
