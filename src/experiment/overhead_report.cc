#include "src/experiment/overhead_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/hash.h"
#include "src/core/log.h"
#include "src/core/progress.h"
#include "src/core/random.h"
#include "src/core/text_table.h"
#include "src/core/version.h"
#include "src/experiment/chart.h"
#include "src/experiment/machine.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;
using Stretches = std::vector<const StretchMeasure*>;

constexpr int kResamples = 2000;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kTable = "E9";

/// A measured quantity and the name of its ratio.
struct Quantity {
  const char* name;
  const char* ratio;
  double StretchMeasure::*value;
  double scale;
};

constexpr Quantity kQuantities[] = {
    {"tpot_ms", "tpot_ratio", &StretchMeasure::tpot_ns, 1e-6},
    {"ttft_ms", "ttft_ratio", &StretchMeasure::ttft_ns, 1e-6},
    {"tokens_per_s", "tokens_ratio", &StretchMeasure::tokens_per_s, 1},
};

double MedianOver(const Stretches& stretches, double StretchMeasure::*value) {
  std::vector<double> values;
  for (const StretchMeasure* stretch : stretches) values.push_back(stretch->*value);
  return MedianOf(std::move(values));
}

struct Interval {
  double value = kNaN, low = kNaN, high = kNaN;
  int64_t n = 0;
};

/// Which of `count` items a resampling draws at position `i`.
using Pick = std::function<std::size_t(std::size_t i, std::size_t count)>;

/// A statistic of everything, and the middle 95 % of the same of resamplings.
Interval Bootstrap(int64_t n, uint64_t seed, const std::function<double(const Pick&)>& of) {
  Interval interval{.value = of([](std::size_t i, std::size_t) { return i; }), .n = n};
  if (n < 2 || std::isnan(interval.value)) return interval;
  Random random(seed);
  const Pick pick = [&](std::size_t, std::size_t count) {
    return static_cast<std::size_t>(random.UniformInt(0, static_cast<int64_t>(count) - 1));
  };
  std::vector<double> drawn;
  for (int i = 0; i < kResamples; ++i) drawn.push_back(of(pick));
  std::erase_if(drawn, [](double value) { return std::isnan(value); });
  std::ranges::sort(drawn);
  const auto at = [&](double share) {
    return drawn[static_cast<std::size_t>(share * static_cast<double>(drawn.size() - 1) + .5)];
  };
  interval.low = at(.025);
  interval.high = at(.975);
  return interval;
}

/// Median over blocks of the ratio to `off` in the same block; blocks are resampled.
Interval RatioWithinBlocks(const Stretches& mode, const Stretches& off,
                           double StretchMeasure::*value, uint64_t seed) {
  std::map<std::pair<int, int>, double> off_of;
  for (const StretchMeasure* stretch : off)
    off_of[{stretch->start, stretch->block}] = stretch->*value;
  std::vector<double> ratios;
  for (const StretchMeasure* stretch : mode) {
    const auto beside = off_of.find({stretch->start, stretch->block});
    if (beside == off_of.end()) continue;
    const double ratio = stretch->*value / beside->second;
    if (std::isfinite(ratio)) ratios.push_back(ratio);
  }
  if (ratios.empty()) return {};
  return Bootstrap(static_cast<int64_t>(ratios.size()), seed, [&](const Pick& pick) {
    std::vector<double> drawn;
    for (std::size_t i = 0; i < ratios.size(); ++i) drawn.push_back(ratios[pick(i, ratios.size())]);
    return MedianOf(std::move(drawn));
  });
}

std::map<int, std::vector<double>> ByStart(const Stretches& stretches,
                                           double StretchMeasure::*value) {
  std::map<int, std::vector<double>> by_start;
  for (const StretchMeasure* stretch : stretches) {
    if (std::isfinite(stretch->*value)) by_start[stretch->start].push_back(stretch->*value);
  }
  return by_start;
}

/// Median over pairs of neighbouring starts of the ratio of their medians; pairs are resampled, and
/// stretches within each start.
Interval RatioOfStarts(const Stretches& attached, const Stretches& bare,
                       double StretchMeasure::*value, uint64_t seed) {
  const auto ours = ByStart(attached, value), theirs = ByStart(bare, value);
  std::vector<std::pair<const std::vector<double>*, const std::vector<double>*>> pairs;
  for (const auto& [start, values] : ours) {
    const auto other = theirs.find(start);
    if (other != theirs.end()) pairs.emplace_back(&values, &other->second);
  }
  if (pairs.empty()) return {};
  return Bootstrap(static_cast<int64_t>(pairs.size()), seed, [&](const Pick& pick) {
    const auto draw = [&](const std::vector<double>& values) {
      std::vector<double> drawn;
      for (std::size_t i = 0; i < values.size(); ++i)
        drawn.push_back(values[pick(i, values.size())]);
      return MedianOf(std::move(drawn));
    };
    std::vector<double> ratios;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const auto& [own, other] = pairs[pick(i, pairs.size())];
      ratios.push_back(draw(*own) / draw(*other));
    }
    return MedianOf(std::move(ratios));
  });
}

Cell CellOf(const Json& row, const std::string& metric, const Interval& interval) {
  const auto known = [](double value) {
    return std::isnan(value) ? std::nullopt : std::optional(value);
  };
  return {.table = kTable,
          .row = row,
          .metric = metric,
          .value = known(interval.value),
          .low = known(interval.low),
          .high = known(interval.high),
          .is_interval = !std::isnan(interval.low),
          .n = interval.n};
}

/// Stretches of one workload at one concurrency, by mode.
using ByMode = std::map<WatchMode, Stretches>;

void AppendCells(const std::string& workload, int concurrency, const ByMode& modes, uint64_t seed,
                 std::vector<Cell>& cells) {
  const auto of = [&](WatchMode mode) {
    const auto found = modes.find(mode);
    return found == modes.end() ? Stretches{} : found->second;
  };
  for (const auto& [mode, stretches] : modes) {
    const bool against_bare = mode == WatchMode::kOff;
    Json row = {
        {"workload", workload},
        {"concurrency", concurrency},
        {"mode", WatchModeName(mode)},
        {"against", WatchModeName(against_bare ? WatchMode::kNotAttached : WatchMode::kOff)}};
    if (mode == WatchMode::kNotAttached) row.erase("against");
    const auto n = static_cast<int64_t>(stretches.size());
    for (const Quantity& quantity : kQuantities) {
      const double median = MedianOver(stretches, quantity.value) * quantity.scale;
      cells.push_back(CellOf(row, quantity.name, {.value = median, .n = n}));
      if (mode == WatchMode::kNotAttached) continue;
      const Interval ratio =
          against_bare ? RatioOfStarts(stretches, of(WatchMode::kNotAttached), quantity.value, seed)
                       : RatioWithinBlocks(stretches, of(WatchMode::kOff), quantity.value, seed);
      cells.push_back(CellOf(row, quantity.ratio, ratio));
    }
    if (mode == WatchMode::kNotAttached) continue;
    cells.push_back(CellOf(row, "drain_cpu",
                           {.value = MedianOver(stretches, &StretchMeasure::drain_cpu), .n = n}));
    cells.push_back(CellOf(row, "pool_mib",
                           {.value = MedianOver(stretches, &StretchMeasure::pool_mib), .n = n}));
  }
}

/// The cell of a row; nullptr where there is none.
const Cell* Find(const std::vector<Cell>& cells, const Json& row, const std::string& metric) {
  const auto found = std::ranges::find_if(
      cells, [&](const Cell& cell) { return cell.row == row && cell.metric == metric; });
  return found == cells.end() ? nullptr : &*found;
}

std::string Print(const Cell* cell, const char* format) {
  if (cell == nullptr || !cell->value) return "";
  std::string text = fmt::format(fmt::runtime(format), *cell->value);
  if (cell->low && cell->high) {
    text += fmt::format(" [{}, {}]", fmt::format(fmt::runtime(format), *cell->low),
                        fmt::format(fmt::runtime(format), *cell->high));
  }
  return text;
}

Json Provenance(const OverheadConfig& config) {
  const Machine machine = DescribeMachine();
  return {{"teller_version", Version()},
          {"commit", Commit()},
          {"seed", config.seed},
          {"cpu", machine.cpu},
          {"cores", machine.cores},
          {"kernel", machine.kernel},
          {"memory_bytes", machine.memory_bytes}};
}

}  // namespace

std::vector<Cell> OverheadCells(const OverheadConfig& config,
                                const std::vector<StretchMeasure>& stretches) {
  std::vector<Cell> cells;
  for (const OverheadWorkload& workload : config.workloads) {
    for (const int64_t concurrency : workload.concurrency) {
      ByMode modes;
      for (const StretchMeasure& stretch : stretches) {
        if (stretch.workload == workload.name && stretch.concurrency == concurrency)
          modes[stretch.mode].push_back(&stretch);
      }
      AppendCells(workload.name, static_cast<int>(concurrency), modes, config.seed, cells);
    }
  }
  return cells;
}

std::string OverheadTable(const std::vector<Cell>& cells) {
  TextTable table({"workload", "concurrency", "mode", "TPOT ms", "TPOT ratio", "TTFT ratio",
                   "tokens/s ratio", "drain CPU", "pools MiB", "n"});
  const Json* before = nullptr;
  for (const Cell& cell : cells) {
    if (before != nullptr && cell.row == *before) continue;
    before = &cell.row;
    const auto text = [&](const char* metric, const char* format) {
      return Print(Find(cells, cell.row, metric), format);
    };
    const Cell* ratio = Find(cells, cell.row, "tpot_ratio");
    table.AddRow({cell.row.at("workload").get<std::string>(),
                  std::to_string(cell.row.at("concurrency").get<int>()),
                  cell.row.at("mode").get<std::string>(), text("tpot_ms", "{:.3f}"),
                  text("tpot_ratio", "{:.4f}"), text("ttft_ratio", "{:.3f}"),
                  text("tokens_ratio", "{:.4f}"), text("drain_cpu", "{:.4f}"),
                  text("pool_mib", "{:.1f}"), ratio == nullptr ? "" : std::to_string(ratio->n)});
  }
  return table.ToText();
}

std::string OverheadFigure(const std::vector<Cell>& cells) {
  constexpr std::pair<const char*, MarkerShape> kShown[] = {
      {"off", MarkerShape::kCross},
      {"ranges", MarkerShape::kCircle},
      {"full", MarkerShape::kSquare},
      {"torch profiler", MarkerShape::kTriangle}};
  std::vector<Panel> panels;
  for (const Cell& cell : cells) {
    if (cell.metric != "tpot_ratio" || !cell.value) continue;
    const std::string workload = cell.row.at("workload");
    if (panels.empty() || panels.back().title != workload) {
      panels.push_back({.title = workload,
                        .x = {.title = "requests in flight",
                              .low = .7,
                              .high = 48,
                              .ticks = {1, 2, 4, 8, 16, 32},
                              .logarithmic = true},
                        .y = {.title = "TPOT against off",
                              .low = .9,
                              .high = 1.5,
                              .ticks = {.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5}}});
      for (const auto& [mode, marker] : kShown) {
        const bool off = std::string_view(mode) == "off";
        panels.back().series.push_back(
            {.name = off ? "off, against not attached" : mode, .marker = marker, .line = !off});
      }
    }
    for (std::size_t i = 0; i < std::size(kShown); ++i) {
      if (cell.row.at("mode") != kShown[i].first) continue;
      panels.back().series[i].points.push_back(
          {.x = cell.row.at("concurrency").get<double>() * (1 + .04 * static_cast<double>(i)),
           .y = *cell.value,
           .low = cell.low.value_or(kNaN),
           .high = cell.high.value_or(kNaN)});
    }
  }
  return DrawChart("What watching costs (time per output token; bars: 95 % intervals)", panels);
}

std::string StretchesCsv(const std::vector<StretchMeasure>& stretches) {
  std::string text =
      "workload,concurrency,mode,start,block,tpot_ns,ttft_ns,tokens_per_s,requests,drain_cpu,pool_"
      "mib\n";
  for (const StretchMeasure& s : stretches) {
    text += fmt::format("{},{},{},{},{},{:.0f},{:.0f},{:.3f},{},{:.5f},{:.2f}\n", s.workload,
                        s.concurrency, WatchModeName(s.mode), s.start, s.block, s.tpot_ns,
                        s.ttft_ns, s.tokens_per_s, s.requests, s.drain_cpu, s.pool_mib);
  }
  return text;
}

MetricsFile RunOverhead(const OverheadOptions& options) {
  const fs::path output = fs::absolute(options.output);
  if (fs::exists(output / "metrics.json")) {
    throw ConfigError(fmt::format("'{}' exists already; choose another --output",
                                  (output / "metrics.json").string()));
  }
  const fs::path scratch = output / ".scratch";
  OverheadConfig config = LoadOverhead(options.config, options.overrides, scratch / "profiler");
  if (!options.workload.empty()) config.KeepOnly(options.workload);
  if (options.limit_s > 0) config.FitInto(options.limit_s);
  fs::create_directories(scratch);
  LogInfo(fmt::format("{}: about {:.0f} s; nothing else should run on this machine", config.name,
                      config.EstimatedSeconds()));
  Progress progress(config.name, static_cast<int64_t>(config.EstimatedSeconds()), "s");
  const OverheadMeasures measures = MeasureOverhead(
      config, scratch, options.limit_s, [&](double seconds, const std::string& note) {
        progress.Update(static_cast<int64_t>(seconds), note);
      });
  std::error_code ignored;
  fs::remove_all(scratch, ignored);
  MetricsFile metrics{.experiment = config.name,
                      .config_hash = HashHex(config.canonical),
                      .provenance = Provenance(config),
                      .cells = OverheadCells(config, measures.stretches),
                      .notes = measures.notes};
  WriteFileAtomically(output / "stretches.csv", StretchesCsv(measures.stretches), true);
  WriteFileAtomically(output / "table.txt", OverheadTable(metrics.cells), true);
  WriteFileAtomically(output / "figure.svg", OverheadFigure(metrics.cells), true);
  WriteMetrics(output / "metrics.json", metrics);
  return metrics;
}

}  // namespace teller::experiment
