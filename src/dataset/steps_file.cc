#include "src/dataset/steps_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/dataset/label_table.h"
#include "src/dataset/number_table.h"
#include "src/dataset/record_table.h"
#include "src/dataset/steps_schema.h"
#include "src/h5/file.h"

namespace teller::dataset {
namespace {

using reconstruct::StepEdge;
using reconstruct::StepForest;
using reconstruct::StepLogLine;
using reconstruct::StepNode;
using reconstruct::StepTrack;

// A step's own row; the counts say how many of the following rows of each other table are its.
struct StepRow {
  int64_t engine_step = 0, begin_ns = 0, end_ns = 0;
  reconstruct::Phase phase{};
  int32_t batch_size = 0, context_tokens = 0;
  uint8_t forest = 0;
  uint32_t rank_count = 0, request_count = 0, track_count = 0, node_count = 0, edge_count = 0,
           log_count = 0;
};
struct RankRow {
  RankId rank{};
  int64_t begin_ns = 0, end_ns = 0;
};
struct RequestRow {
  std::string id;
};
struct StatRow {
  std::string name;
  int64_t count = 0;
};

constexpr auto kStepFields = [](auto visit) {
  visit("engine_step", &StepRow::engine_step);
  visit("begin_ns", &StepRow::begin_ns);
  visit("end_ns", &StepRow::end_ns);
  visit("phase", &StepRow::phase);
  visit("batch_size", &StepRow::batch_size);
  visit("context_tokens", &StepRow::context_tokens);
  visit("forest", &StepRow::forest);
  visit("rank_count", &StepRow::rank_count);
  visit("request_count", &StepRow::request_count);
  visit("track_count", &StepRow::track_count);
  visit("node_count", &StepRow::node_count);
  visit("edge_count", &StepRow::edge_count);
  visit("log_count", &StepRow::log_count);
};
constexpr auto kRankFields = [](auto visit) {
  visit("rank", &RankRow::rank);
  visit("begin_ns", &RankRow::begin_ns);
  visit("end_ns", &RankRow::end_ns);
};
constexpr auto kRequestFields = [](auto visit) { visit("id", &RequestRow::id); };
constexpr auto kTrackFields = [](auto visit) {
  visit("rank", &StepTrack::rank);
  visit("track", &StepTrack::track);
  visit("device", &StepTrack::device);
};
constexpr auto kNodeFields = [](auto visit) {
  visit("symbol", &StepNode::symbol);
  visit("track", &StepNode::track);
  visit("layer", &StepNode::layer);
  visit("kind", &StepNode::kind);
  visit("parent", &StepNode::parent);
  visit("depth", &StepNode::depth);
  visit("begin_ns", &StepNode::begin_ns);
  visit("duration_ns", &StepNode::duration_ns);
  visit("host_self_ns", &StepNode::host_self_ns);
  visit("device_busy_ns", &StepNode::device_busy_ns);
  visit("gap_before_ns", &StepNode::gap_before_ns);
  visit("bytes", &StepNode::bytes);
  visit("sequence", &StepNode::sequence);
  visit("entry_delay_ns", &StepNode::entry_delay_ns);
};
constexpr auto kEdgeFields = [](auto visit) {
  visit("from", &StepEdge::from);
  visit("to", &StepEdge::to);
  visit("type", &StepEdge::type);
};
constexpr auto kLogFields = [](auto visit) {
  visit("rank", &StepLogLine::rank);
  visit("offset_ns", &StepLogLine::offset_ns);
  visit("text", &StepLogLine::text);
};
constexpr auto kStatFields = [](auto visit) {
  visit("name", &StatRow::name);
  visit("count", &StatRow::count);
};

// Rows of all steps, one after another, of the vector `member` of StepForest.
template <typename Item>
std::vector<const Item*> RowsOf(const std::vector<StepForest>& steps,
                                std::vector<Item> StepForest::*member) {
  std::vector<const Item*> rows;
  for (const StepForest& step : steps) {
    for (const Item& item : step.*member) rows.push_back(&item);
  }
  return rows;
}

std::vector<StepRow> StepRows(const StepsFile& file) {
  std::vector<StepRow> rows;
  for (std::size_t i = 0; i < file.run.steps.size(); ++i) {
    const StepForest& step = file.run.steps[i];
    const auto count = [](const auto& items) { return static_cast<uint32_t>(items.size()); };
    rows.push_back({step.engine_step, step.begin_ns, step.end_ns, step.phase, step.batch_size,
                    step.context_tokens, file.forest[i], count(step.ranks), count(step.requests),
                    count(step.tracks), count(step.nodes), count(step.edges), count(step.logs)});
  }
  return rows;
}

std::vector<RankRow> RankRows(const StepsFile& file) {
  std::vector<RankRow> rows;
  for (const StepForest& step : file.run.steps) {
    TELLER_CHECK(step.rank_begin_ns.size() == step.ranks.size() &&
                 step.rank_end_ns.size() == step.ranks.size());
    for (std::size_t i = 0; i < step.ranks.size(); ++i) {
      rows.push_back({step.ranks[i], step.rank_begin_ns[i], step.rank_end_ns[i]});
    }
  }
  return rows;
}

std::vector<RequestRow> RequestRows(const StepsFile& file) {
  std::vector<RequestRow> rows;
  for (const StepForest& step : file.run.steps) {
    for (const std::string& request : step.requests) rows.push_back({request});
  }
  return rows;
}

void WriteRoot(h5::Group& root, const StepsFile& file) {
  h5::WriteSchema(root, kStepsSchema, file.run.run_id);
  root.SetAttribute("engine", std::string_view(file.engine));
  root.SetAttribute("workload", std::string_view(file.run.workload));
  root.SetAttribute("clock_aligned", int64_t{file.clock_aligned});
  root.SetAttribute("clock_residual_ns", file.clock_residual_ns);
}

void WriteTables(h5::Group& root, const StepsFile& file, const h5::ColumnOptions& options) {
  StringInterner strings;
  const auto write = [&](const char* name, const auto& rows, auto fields) {
    WriteTable(root, name, PointersTo(rows), strings, fields, options);
  };
  const auto& steps = file.run.steps;
  write("steps", StepRows(file), kStepFields);
  write("step_ranks", RankRows(file), kRankFields);
  write("requests", RequestRows(file), kRequestFields);
  WriteTable(root, "tracks", RowsOf(steps, &StepForest::tracks), strings, kTrackFields, options);
  WriteTable(root, "nodes", RowsOf(steps, &StepForest::nodes), strings, kNodeFields, options);
  WriteTable(root, "edges", RowsOf(steps, &StepForest::edges), strings, kEdgeFields, options);
  WriteTable(root, "logs", RowsOf(steps, &StepForest::logs), strings, kLogFields, options);
  WriteLabels(root, PointersTo(file.labels), strings);
  WriteInputs(root, file.inputs, strings);
  std::vector<StatRow> stats;
  for (const auto& [name, count] : file.stats) stats.push_back({name, count});
  write("stats", stats, kStatFields);
  root.WriteStrings("symbols", file.run.symbols.Strings());
  root.WriteStrings("strings", strings.Strings());
}

void ReadSteps(const TableReader& tables, StepsFile& file) {
  auto ranks = tables.Deal<RankRow>("step_ranks", kRankFields);
  auto requests = tables.Deal<RequestRow>("requests", kRequestFields);
  auto tracks = tables.Deal<StepTrack>("tracks", kTrackFields);
  auto nodes = tables.Deal<StepNode>("nodes", kNodeFields);
  auto edges = tables.Deal<StepEdge>("edges", kEdgeFields);
  auto logs = tables.Deal<StepLogLine>("logs", kLogFields);
  for (const StepRow& row : tables.Read<StepRow>("steps", kStepFields)) {
    StepForest& step = file.run.steps.emplace_back();
    step.engine_step = row.engine_step;
    step.begin_ns = row.begin_ns;
    step.end_ns = row.end_ns;
    step.phase = row.phase;
    step.batch_size = row.batch_size;
    step.context_tokens = row.context_tokens;
    for (const RankRow& rank : ranks.Take(row.rank_count)) {
      step.ranks.push_back(rank.rank);
      step.rank_begin_ns.push_back(rank.begin_ns);
      step.rank_end_ns.push_back(rank.end_ns);
    }
    for (RequestRow& request : requests.Take(row.request_count))
      step.requests.push_back(std::move(request.id));
    step.tracks = tracks.Take(row.track_count);
    step.nodes = nodes.Take(row.node_count);
    step.edges = edges.Take(row.edge_count);
    step.logs = logs.Take(row.log_count);
    file.forest.push_back(row.forest);
  }
  ranks.ExpectEmpty();
  requests.ExpectEmpty();
  tracks.ExpectEmpty();
  nodes.ExpectEmpty();
  edges.ExpectEmpty();
  logs.ExpectEmpty();
}

// What readers index with must be in range, or a damaged file would crash them.
class Checker {
 public:
  Checker(const std::string& where, const StepsFile& file) : where_(where), file_(file) {}

  void Check() const {
    for (std::size_t i = 0; i < file_.run.steps.size(); ++i) {
      CheckStep(i, file_.run.steps[i]);
      CheckLabel(i, file_.labels[i]);
    }
  }

 private:
  void Require(bool holds, std::size_t step, const char* what) const {
    if (!holds)
      throw DataError(fmt::format("{}: step {}: {}; the file is damaged", where_, step, what));
  }

  void CheckStep(std::size_t index, const StepForest& step) const {
    Require(step.phase <= reconstruct::Phase::kMixed, index, "unknown phase");
    const auto count = static_cast<int64_t>(step.nodes.size());
    for (std::size_t i = 0; i < step.nodes.size(); ++i) CheckNode(index, step, i);
    for (const StepEdge& edge : step.edges) {
      Require(InRange(edge.from, count) && InRange(edge.to, count), index,
              "an edge names a node that is not there");
      Require(edge.type <= reconstruct::EdgeType::kThread, index, "unknown edge type");
    }
  }

  void CheckNode(std::size_t index, const StepForest& step, std::size_t i) const {
    const StepNode& node = step.nodes[i];
    Require(Index(node.symbol) < file_.run.symbols.size(), index, "a node's symbol does not exist");
    Require(node.track < step.tracks.size(), index, "a node's track does not exist");
    Require(static_cast<int>(node.layer) < trace::kLayerCount, index, "unknown layer");
    Require(static_cast<int>(node.kind) < trace::kKindCount, index, "unknown kind");
    Require(i == 0 || step.nodes[i - 1].track <= node.track, index,
            "nodes are not grouped by track");
    if (node.parent == kNoNode) return;
    Require(InRange(node.parent, static_cast<int64_t>(i)), index,
            "a parent does not come before its child");
    const StepNode& parent = step.nodes[Index(node.parent)];
    Require(parent.track == node.track && parent.depth + 1 == node.depth, index,
            "a parent's track or depth is wrong");
  }

  void CheckLabel(std::size_t index, const StepLabel& label) const {
    const auto count = static_cast<int64_t>(file_.run.steps[index].nodes.size());
    for (const NodeId node : label.hit_nodes)
      Require(InRange(node, count), index, "a hit names a node that is not there");
  }

  static bool InRange(NodeId node, int64_t count) {
    return static_cast<int32_t>(node) >= 0 && static_cast<int32_t>(node) < count;
  }

  const std::string& where_;
  const StepsFile& file_;
};

void CheckShape(const StepsFile& file) {
  const std::size_t steps = file.run.steps.size();
  TELLER_CHECK(file.labels.size() == steps && file.forest.size() == steps &&
               file.numbers.size() == steps);
}

}  // namespace

int64_t ClockErrorNs(const StepsFile& steps) {
  constexpr double kLeastNs = 20'000;  // of c10d Gloo's ends alone (docs/design.md, section 7)
  return static_cast<int64_t>(std::max(kLeastNs, steps.clock_residual_ns));
}

namespace {

void WriteInto(AtomicFile destination, const StepsFile& steps, const h5::ColumnOptions& options) {
  CheckShape(steps);
  h5::File file = h5::File::Create(destination.path());
  WriteRoot(file.root(), steps);
  WriteTables(file.root(), steps, options);
  WriteNumberTable(file.root(), "number", {steps.number_names, steps.numbers}, options);
  file.Close();
  destination.Commit();
}

}  // namespace

void WriteSteps(const std::filesystem::path& path, const StepsFile& steps, bool force) {
  WriteInto(AtomicFile(path, force), steps, kTableOptions);
}

void WriteSteps(const std::filesystem::path& path, const StepsFile& steps,
                const h5::ColumnOptions& options) {
  WriteInto(AtomicFile(path, /*force=*/false), steps, options);
}

StepsFile ReadSteps(const std::filesystem::path& path) {
  const h5::File file = h5::File::Open(path);
  const h5::Group& root = file.root();
  h5::CheckSchema(root, kStepsSchema);
  StepsFile steps;
  steps.run.run_id = root.GetString("run_id");
  steps.run.workload = root.GetString("workload");
  steps.engine = root.GetString("engine");
  steps.clock_aligned = root.GetInt("clock_aligned") != 0;
  steps.clock_residual_ns = root.GetDouble("clock_residual_ns");
  steps.run.symbols = StringInterner(root.ReadStrings("symbols"));
  const TableReader tables(root);
  ReadSteps(tables, steps);
  steps.labels = ReadLabels(tables, steps.run.steps.size());
  NumberTable numbers = ReadNumberTable(root, "number", steps.run.steps.size());
  steps.number_names = std::move(numbers.names);
  steps.numbers = std::move(numbers.rows);
  steps.inputs = ReadInputs(tables);
  for (StatRow& row : tables.Read<StatRow>("stats", kStatFields)) {
    steps.stats.emplace_back(std::move(row.name), row.count);
  }
  Checker(path.string(), steps).Check();
  return steps;
}

}  // namespace teller::dataset
