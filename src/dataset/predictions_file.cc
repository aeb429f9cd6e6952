#include "src/dataset/predictions_file.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <utility>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/interner.h"
#include "src/h5/file.h"
#include "src/h5/schema.h"

namespace teller::dataset {
namespace {

constexpr h5::Schema kSchema{"predictions", 1, 0};
constexpr std::size_t kMostGuesses = 5;

/// The file's columns in memory.
struct Columns {
  std::vector<uint32_t> run;
  std::vector<int64_t> engine_step;
  std::vector<float> score, probability;
  std::vector<uint32_t> kind_count, operator_count, rank_count;
  std::vector<std::string> explanation;
  std::vector<float> kind_probability, rank_probability;
  std::vector<int32_t> operator_rank, operator_node;
  std::vector<uint32_t> operator_symbol;
  std::vector<float> operator_probability;
};

void CheckStep(const StepPrediction& step, std::size_t kinds) {
  TELLER_CHECK(step.kind_probability.empty() || step.kind_probability.size() == kinds);
  TELLER_CHECK(step.operators.size() <= kMostGuesses);
}

void Append(const StepPrediction& step, StringInterner& runs, StringInterner& symbols,
            Columns& columns) {
  columns.run.push_back(static_cast<uint32_t>(Index(runs.Intern(step.run_id))));
  columns.engine_step.push_back(step.engine_step);
  columns.score.push_back(step.score);
  columns.probability.push_back(step.probability);
  columns.kind_count.push_back(static_cast<uint32_t>(step.kind_probability.size()));
  columns.operator_count.push_back(static_cast<uint32_t>(step.operators.size()));
  columns.rank_count.push_back(static_cast<uint32_t>(step.rank_probability.size()));
  columns.explanation.push_back(step.explanation);
  columns.kind_probability.insert(columns.kind_probability.end(), step.kind_probability.begin(),
                                  step.kind_probability.end());
  columns.rank_probability.insert(columns.rank_probability.end(), step.rank_probability.begin(),
                                  step.rank_probability.end());
  for (const OperatorGuess& guess : step.operators) {
    columns.operator_rank.push_back(static_cast<int32_t>(guess.rank));
    columns.operator_node.push_back(static_cast<int32_t>(guess.node));
    columns.operator_symbol.push_back(static_cast<uint32_t>(Index(symbols.Intern(guess.symbol))));
    columns.operator_probability.push_back(guess.probability);
  }
}

void WriteColumns(h5::Group& root, const Columns& columns) {
  h5::Group steps = root.CreateGroup("steps");
  steps.Write("run", columns.run);
  steps.Write("engine_step", columns.engine_step);
  steps.Write("score", columns.score);
  steps.Write("probability", columns.probability);
  steps.Write("kind_count", columns.kind_count);
  steps.Write("operator_count", columns.operator_count);
  steps.Write("rank_count", columns.rank_count);
  steps.WriteStrings("explanation", columns.explanation);
  root.CreateGroup("kind").Write("probability", columns.kind_probability);
  root.CreateGroup("rank").Write("probability", columns.rank_probability);
  h5::Group operators = root.CreateGroup("operator");
  operators.Write("rank", columns.operator_rank);
  operators.Write("node", columns.operator_node);
  operators.Write("symbol", columns.operator_symbol);
  operators.Write("probability", columns.operator_probability);
}

Columns ReadColumns(const h5::Group& root) {
  Columns columns;
  const h5::Group steps = root.OpenGroup("steps");
  columns.run = steps.Read<uint32_t>("run");
  const uint64_t rows = columns.run.size();
  columns.engine_step = steps.Read<int64_t>("engine_step", rows);
  columns.score = steps.Read<float>("score", rows);
  columns.probability = steps.Read<float>("probability", rows);
  columns.kind_count = steps.Read<uint32_t>("kind_count", rows);
  columns.operator_count = steps.Read<uint32_t>("operator_count", rows);
  columns.rank_count = steps.Read<uint32_t>("rank_count", rows);
  columns.explanation = steps.ReadStrings("explanation", rows);
  columns.kind_probability = root.OpenGroup("kind").Read<float>("probability");
  columns.rank_probability = root.OpenGroup("rank").Read<float>("probability");
  const h5::Group operators = root.OpenGroup("operator");
  columns.operator_rank = operators.Read<int32_t>("rank");
  const uint64_t guesses = columns.operator_rank.size();
  columns.operator_node = operators.Read<int32_t>("node", guesses);
  columns.operator_symbol = operators.Read<uint32_t>("symbol", guesses);
  columns.operator_probability = operators.Read<float>("probability", guesses);
  return columns;
}

/// Takes consecutive pieces of a flat column and checks that they are there.
template <typename T>
class Pieces {
 public:
  Pieces(std::span<const T> values, const std::string& where) : values_(values), where_(where) {}

  std::span<const T> Take(std::size_t count) {
    if (count > values_.size() - next_) {
      throw DataError(where_ +
                      ": a flat column is shorter than its counts say; write the file again");
    }
    next_ += count;
    return values_.subspan(next_ - count, count);
  }
  void RequireEnd() const {
    if (next_ != values_.size()) {
      throw DataError(where_ +
                      ": a flat column is longer than its counts say; write the file again");
    }
  }

 private:
  std::span<const T> values_;
  const std::string& where_;
  std::size_t next_ = 0;
};

const std::string& Lookup(const std::vector<std::string>& table, uint32_t id,
                          const std::string& where) {
  if (id >= table.size())
    throw DataError(where + ": a string id is outside its table; write the file again");
  return table[id];
}

std::vector<StepPrediction> Assemble(const h5::Group& root, const Columns& columns,
                                     std::size_t kinds) {
  const std::string& where = root.where();
  const std::vector<std::string> runs = root.ReadStrings("runs");
  const std::vector<std::string> symbols = root.ReadStrings("symbols");
  std::vector<std::size_t> order(columns.operator_rank.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  Pieces<float> kind(columns.kind_probability, where), rank(columns.rank_probability, where);
  Pieces<std::size_t> guess(order, where);
  std::vector<StepPrediction> steps;
  for (std::size_t i = 0; i < columns.run.size(); ++i) {
    if ((columns.kind_count[i] != 0 && columns.kind_count[i] != kinds) ||
        columns.operator_count[i] > kMostGuesses) {
      throw DataError(where + "steps: a count is out of range at step " + std::to_string(i));
    }
    StepPrediction step;
    step.run_id = Lookup(runs, columns.run[i], where);
    step.engine_step = columns.engine_step[i];
    step.score = columns.score[i];
    step.probability = columns.probability[i];
    const auto kind_piece = kind.Take(columns.kind_count[i]);
    step.kind_probability.assign(kind_piece.begin(), kind_piece.end());
    const auto rank_piece = rank.Take(columns.rank_count[i]);
    step.rank_probability.assign(rank_piece.begin(), rank_piece.end());
    for (const std::size_t g : guess.Take(columns.operator_count[i])) {
      step.operators.push_back({RankId{columns.operator_rank[g]},
                                Lookup(symbols, columns.operator_symbol[g], where),
                                NodeId{columns.operator_node[g]}, columns.operator_probability[g]});
    }
    step.explanation = columns.explanation[i];
    steps.push_back(std::move(step));
  }
  kind.RequireEnd();
  rank.RequireEnd();
  guess.RequireEnd();
  return steps;
}

}  // namespace

void WritePredictions(const std::filesystem::path& path, const PredictionsFile& predictions,
                      bool force) {
  AtomicFile whole(path, force);
  h5::File file = h5::File::Create(whole.path());
  {
    h5::Group& root = file.root();
    h5::WriteSchema(root, kSchema, "");
    root.SetAttribute("method", predictions.method);
    root.SetAttribute("seed", predictions.seed);
    StringInterner runs, symbols;
    Columns columns;
    for (const StepPrediction& step : predictions.steps) {
      CheckStep(step, predictions.kinds.size());
      Append(step, runs, symbols, columns);
    }
    root.WriteStrings("kinds", predictions.kinds);
    root.WriteStrings("runs", runs.Strings());
    root.WriteStrings("symbols", symbols.Strings());
    WriteColumns(root, columns);
  }
  file.Close();
  whole.Commit();
}

PredictionsFile ReadPredictions(const std::filesystem::path& path) {
  const h5::File file = h5::File::Open(path);
  const h5::Group& root = file.root();
  h5::CheckSchema(root, kSchema);
  PredictionsFile predictions;
  predictions.method = root.GetString("method");
  predictions.seed = root.GetInt("seed");
  predictions.kinds = root.ReadStrings("kinds");
  predictions.steps = Assemble(root, ReadColumns(root), predictions.kinds.size());
  return predictions;
}

}  // namespace teller::dataset
