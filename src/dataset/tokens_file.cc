#include "src/dataset/tokens_file.h"

#include <algorithm>
#include <utility>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/dataset/label_table.h"
#include "src/dataset/number_table.h"
#include "src/dataset/record_table.h"
#include "src/dataset/tokens_schema.h"
#include "src/trace/event.h"

namespace teller::dataset {
namespace {

struct StepCounts {
  uint32_t token_count = 0, node_count = 0, log_count = 0;
};
struct StepRow : StepTokens, StepCounts {};
struct LogRow {
  std::string text;
  uint16_t rank = 0;
};

constexpr auto kStepFields = [](auto visit) {
  visit("engine_step", &StepRow::engine_step);
  visit("forest_nodes", &StepRow::forest_nodes);
  visit("forest_atoms", &StepRow::forest_atoms);
  visit("forest_tokens", &StepRow::forest_tokens);
  visit("slice_nodes", &StepRow::slice_nodes);
  visit("unknown_symbols", &StepRow::unknown_symbols);
  visit("decodes", &StepRow::decodes);
  visit("times_add_up", &StepRow::times_add_up);
  visit("token_count", &StepRow::token_count);
  visit("node_count", &StepRow::node_count);
  visit("log_count", &StepRow::log_count);
};
constexpr auto kTokenFields = [](auto visit) {
  visit("id", &StepToken::id);
  visit("rank", &StepToken::rank);
  visit("track", &StepToken::track);
  visit("layer", &StepToken::layer);
  visit("depth", &StepToken::depth);
  visit("parent_token", &StepToken::parent_token);
  visit("parent_node", &StepToken::parent_node);
  visit("first_node", &StepToken::first_node);
  visit("node_count", &StepToken::node_count);
  visit("host_ns", &StepToken::host_ns);
  visit("device_ns", &StepToken::device_ns);
  visit("root_ns", &StepToken::root_ns);
  visit("residual", &StepToken::residual);
  visit("residual_node", &StepToken::residual_node);
};
constexpr auto kNodeFields = [](auto visit) {
  visit("node", &TokenNode::node);
  visit("symbol", &TokenNode::symbol);
  visit("rank", &TokenNode::rank);
  visit("residual", &TokenNode::residual);
  visit("log_duration", &TokenNode::log_duration);
  visit("suspect", &TokenNode::suspect);
};
constexpr auto kLogFields = [](auto visit) {
  visit("text", &LogRow::text);
  visit("rank", &LogRow::rank);
};

template <typename Item>
std::vector<const Item*> RowsOf(const std::vector<StepTokens>& steps,
                                std::vector<Item> StepTokens::*member) {
  std::vector<const Item*> rows;
  for (const StepTokens& step : steps) {
    for (const Item& item : step.*member) rows.push_back(&item);
  }
  return rows;
}

std::vector<StepRow> StepRows(const TokensFile& file) {
  std::vector<StepRow> rows;
  for (const StepTokens& step : file.steps) {
    TELLER_CHECK(step.log_text.size() == step.log_rank.size());
    StepRow& row = rows.emplace_back();
    row.engine_step = step.engine_step;
    row.forest_nodes = step.forest_nodes;
    row.forest_atoms = step.forest_atoms;
    row.forest_tokens = step.forest_tokens;
    row.slice_nodes = step.slice_nodes;
    row.unknown_symbols = step.unknown_symbols;
    row.decodes = step.decodes;
    row.times_add_up = step.times_add_up;
    row.token_count = static_cast<uint32_t>(step.tokens.size());
    row.node_count = static_cast<uint32_t>(step.nodes.size());
    row.log_count = static_cast<uint32_t>(step.log_text.size());
  }
  return rows;
}

std::vector<LogRow> LogRows(const TokensFile& file) {
  std::vector<LogRow> rows;
  for (const StepTokens& step : file.steps) {
    for (std::size_t i = 0; i < step.log_text.size(); ++i) {
      rows.push_back({step.log_text[i], step.log_rank[i]});
    }
  }
  return rows;
}

void WriteRoot(h5::Group& root, const TokensFile& file) {
  h5::WriteSchema(root, kTokensSchema, file.run_id);
  root.SetAttribute("engine", std::string_view(file.engine));
  root.SetAttribute("mode", std::string_view(file.mode));
  root.SetAttribute("barriers", std::string_view(file.barriers));
  root.SetAttribute("vocabulary_hash", std::string_view(file.vocabulary_hash));
  root.SetAttribute("vocabulary_size", int64_t{file.vocabulary_size});
}

void WriteNumbers(h5::Group& root, const TokensFile& file) {
  NumberTable numbers{file.number_names, {}}, localizer{file.localizer_names, {}};
  for (const StepTokens& step : file.steps) {
    numbers.rows.push_back(step.numbers);
    localizer.rows.push_back(step.localizer);
  }
  WriteNumberTable(root, "number", numbers);
  WriteNumberTable(root, "localizer", localizer);
}

void ReadStepTables(const TableReader& tables, TokensFile& file) {
  auto tokens = tables.Deal<StepToken>("tokens", kTokenFields);
  auto nodes = tables.Deal<TokenNode>("nodes", kNodeFields);
  auto logs = tables.Deal<LogRow>("logs", kLogFields);
  for (StepRow& row : tables.Read<StepRow>("steps", kStepFields)) {
    StepTokens& step = file.steps.emplace_back(std::move(static_cast<StepTokens&>(row)));
    step.tokens = tokens.Take(row.token_count);
    step.nodes = nodes.Take(row.node_count);
    for (LogRow& log : logs.Take(row.log_count)) {
      step.log_text.push_back(std::move(log.text));
      step.log_rank.push_back(log.rank);
    }
  }
  tokens.ExpectEmpty();
  nodes.ExpectEmpty();
  logs.ExpectEmpty();
}

// What readers index with must be in range, or a damaged file would crash them.
class Checker {
 public:
  Checker(std::string where, const TokensFile& file) : where_(std::move(where)), file_(file) {}

  void Check() const {
    for (std::size_t s = 0; s < file_.steps.size(); ++s) {
      const StepTokens& step = file_.steps[s];
      for (std::size_t t = 0; t < step.tokens.size(); ++t) CheckToken(s, step, t);
      for (const TokenNode& node : step.nodes) CheckNode(s, node);
      for (const uint16_t rank : step.log_rank) {
        Require(rank < file_.ranks.size(), s, "a log line's rank does not exist");
      }
    }
  }

 private:
  void Require(bool holds, std::size_t step, const char* what) const {
    if (holds) return;
    throw DataError(where_ + ": step " + std::to_string(step) + ": " + what +
                    "; the file is damaged");
  }
  void CheckToken(std::size_t s, const StepTokens& step, std::size_t t) const {
    const StepToken& token = step.tokens[t];
    Require(token.id < file_.vocabulary_size, s, "a token is not in the vocabulary");
    Require(token.rank < file_.ranks.size(), s, "a token's rank does not exist");
    Require(token.layer < trace::kLayerCount, s, "unknown layer");
    const std::size_t nodes = step.nodes.size();
    Require(token.first_node <= nodes && token.node_count <= nodes - token.first_node, s,
            "a token's nodes are not there");
    Require(token.residual_node < std::max<uint32_t>(1, token.node_count), s,
            "a token's residual is not of its nodes");
    if (token.parent_token == -1) return;
    Require(token.parent_token >= 0 && static_cast<std::size_t>(token.parent_token) < t, s,
            "a token's parent does not come before it");
    Require(
        token.parent_node < step.tokens[static_cast<std::size_t>(token.parent_token)].node_count, s,
        "a token's parent node is not there");
  }
  void CheckNode(std::size_t s, const TokenNode& node) const {
    Require(Index(node.symbol) < file_.symbols.size(), s, "a node's symbol does not exist");
    Require(node.rank < file_.ranks.size(), s, "a node's rank does not exist");
    Require(static_cast<int32_t>(node.node) >= 0, s, "a node has no place in the forest");
  }

  std::string where_;
  const TokensFile& file_;
};

void ReadRoot(const h5::Group& root, TokensFile& file) {
  file.run_id = root.GetString("run_id");
  file.engine = root.GetString("engine");
  file.mode = root.GetString("mode");
  file.barriers = root.GetString("barriers");
  file.vocabulary_hash = root.GetString("vocabulary_hash");
  file.vocabulary_size = static_cast<uint32_t>(root.GetInt("vocabulary_size"));
  file.symbols = root.ReadStrings("symbols");
  file.ranks = root.Read<int32_t>("ranks");
}

void ReadNumbers(const h5::Group& root, TokensFile& file) {
  NumberTable numbers = ReadNumberTable(root, "number", file.steps.size());
  NumberTable localizer = ReadNumberTable(root, "localizer", file.steps.size());
  file.number_names = std::move(numbers.names);
  file.localizer_names = std::move(localizer.names);
  for (std::size_t s = 0; s < file.steps.size(); ++s) {
    file.steps[s].numbers = std::move(numbers.rows[s]);
    file.steps[s].localizer = std::move(localizer.rows[s]);
  }
}

}  // namespace

void WriteTokens(const std::filesystem::path& path, const TokensFile& tokens, bool force) {
  AtomicFile destination(path, force);
  h5::File file = h5::File::Create(destination.path());
  {
    h5::Group& root = file.root();
    StringInterner strings;
    const std::vector<StepRow> steps = StepRows(tokens);
    const std::vector<LogRow> logs = LogRows(tokens);
    WriteRoot(root, tokens);
    WriteTable(root, "steps", PointersTo(steps), strings, kStepFields);
    WriteTable(root, "tokens", RowsOf(tokens.steps, &StepTokens::tokens), strings, kTokenFields);
    WriteTable(root, "nodes", RowsOf(tokens.steps, &StepTokens::nodes), strings, kNodeFields);
    WriteTable(root, "logs", PointersTo(logs), strings, kLogFields);
    std::vector<const StepLabel*> labels;
    for (const StepTokens& step : tokens.steps) labels.push_back(&step.label);
    WriteLabels(root, labels, strings);
    WriteNumbers(root, tokens);
    WriteInputs(root, tokens.inputs, strings);
    root.Write("ranks", tokens.ranks, kTableOptions);
    root.WriteStrings("symbols", tokens.symbols);
    root.WriteStrings("strings", strings.Strings());
  }
  file.Close();
  destination.Commit();
}

TokensFile ReadTokens(const std::filesystem::path& path) {
  const h5::File file = h5::File::Open(path);
  const h5::Group& root = file.root();
  h5::CheckSchema(root, kTokensSchema);
  TokensFile tokens;
  ReadRoot(root, tokens);
  const TableReader tables(root);
  ReadStepTables(tables, tokens);
  std::vector<StepLabel> labels = ReadLabels(tables, tokens.steps.size());
  for (std::size_t s = 0; s < labels.size(); ++s) tokens.steps[s].label = std::move(labels[s]);
  ReadNumbers(root, tokens);
  tokens.inputs = ReadInputs(tables);
  Checker(path.string(), tokens).Check();
  return tokens;
}

}  // namespace teller::dataset
