#include "src/cli/bench_command.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "src/cluster/cluster.h"
#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/core/log.h"
#include "src/core/text_table.h"
#include "src/experiment/overhead_report.h"

namespace teller::cli {
namespace {

using nlohmann::ordered_json;

/// How a repetition's numbers become the measure.
enum class Per { kIterationNs, kItemNs, kItemsPerSecond, kBytesPerSecond };

struct Measure {
  std::string_view name;
  std::string_view benchmark;  ///< as teller-benchmarks names it
  Per per;
};

constexpr std::array<Measure, 18> kMeasures = {{
    {"nvtx_pair_ns", "BM_NvtxPair/level:1", Per::kIterationNs},
    {"nvtx_off_pair_ns", "BM_NvtxPair/level:0", Per::kIterationNs},
    {"nvtx_empty_tool_pair_ns", "BM_NvtxPairUnobserved/tool:1/manual_time", Per::kItemNs},
    {"nvtx_no_tool_pair_ns", "BM_NvtxPairUnobserved/tool:0/manual_time", Per::kItemNs},
    {"operator_ns", "BM_Operator/level:2/manual_time", Per::kItemNs},
    {"operator_off_ns", "BM_Operator/level:0/manual_time", Per::kItemNs},
    {"operator_empty_callback_ns", "BM_OperatorEmptyCallback/manual_time", Per::kItemNs},
    {"profiler_operator_ns", "BM_OperatorTorchProfiler/manual_time", Per::kItemNs},
    {"drain_raw_events_per_s", "BM_DrainRaw", Per::kItemsPerSecond},
    {"drain_compressed_events_per_s", "BM_DrainCompressed", Per::kItemsPerSecond},
    {"cupti_decode_records_per_s", "BM_CuptiDecode/decode:1", Per::kItemsPerSecond},
    {"cupti_walk_records_per_s", "BM_CuptiDecode/decode:0", Per::kItemsPerSecond},
    {"tree_events_per_s", "BM_CallTreeBuild/1048576", Per::kItemsPerSecond},
    {"tpe_encode_atoms_per_s", "BM_TpeEncode/256", Per::kItemsPerSecond},
    {"tpe_train_atoms_per_s", "BM_TpeTrain/1048576", Per::kItemsPerSecond},
    {"kineto_import_bytes_per_s", "BM_KinetoImport/131072", Per::kBytesPerSecond},
    {"nsys_import_rows_per_s", "BM_NsightImport/300000", Per::kItemsPerSecond},
    {"sqlite_select_rows_per_s", "BM_SqliteSelect/300000", Per::kItemsPerSecond},
}};

std::string_view UnitOf(Per per) {
  switch (per) {
    case Per::kIterationNs:
    case Per::kItemNs:
      return "ns";
    case Per::kItemsPerSecond:
      return "1/s";
    case Per::kBytesPerSecond:
      return "B/s";
  }
  return "";
}

double ValueOf(const nlohmann::json& repetition, Per per) {
  switch (per) {
    case Per::kIterationNs:
      return repetition.at("cpu_time").get<double>();
    case Per::kItemNs:
      return 1e9 / repetition.at("items_per_second").get<double>();
    case Per::kItemsPerSecond:
      return repetition.at("items_per_second").get<double>();
    case Per::kBytesPerSecond:
      return repetition.at("bytes_per_second").get<double>();
  }
  return 0;
}

std::filesystem::path BenchmarksProgram() {
  const auto program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "teller-benchmarks";
  if (!std::filesystem::exists(program)) {
    throw UnavailableError(fmt::format(
        "'{}' is absent; configure with -DTELLER_BUILD_BENCHMARKS=ON", program.string()));
  }
  return program;
}

/// Runs teller-benchmarks on a plain node: it dies with us, also by SIGKILL.
std::string OutputOf(std::vector<std::string> arguments) {
  std::string folder = (std::filesystem::temp_directory_path() / "teller-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr)
    throw DeviceError(fmt::format("{}: cannot make it: {}", folder, std::strerror(errno)));
  const std::filesystem::path output = std::filesystem::path(folder) / "report.json";
  const auto cluster = cluster::Cluster::Create({.run_id = fmt::format("bench-{}", getpid()),
                                                 .nodes = {{.name = "bench"}},
                                                 .mode = cluster::Mode::kLoopback});
  arguments.insert(arguments.begin(), BenchmarksProgram().string());
  const auto process = cluster->node(0).Spawn(
      {.argv = std::move(arguments), .stdout_file = output, .stderr_file = "/dev/null"});
  const auto status = process->Wait(-1);
  const std::string text = std::filesystem::exists(output) ? ReadFile(output) : "";
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  ThrowIfInterrupted();
  if (!status || status->ShellCode() != 0) {
    throw DeviceError(fmt::format("teller-benchmarks failed ({}); run it by hand to see why",
                                  status ? status->Describe() : "interrupted"));
  }
  return text;
}

struct Spread {
  double median, least, largest;
};

Spread SpreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

ordered_json Summarize(const nlohmann::json& report) {
  std::map<std::string, std::vector<const nlohmann::json*>> repetitions;
  for (const auto& entry : report.at("benchmarks")) {
    if (entry.value("run_type", "") != "iteration") continue;
    if (entry.value("error_occurred", false)) {
      LogWarning(fmt::format("{}: {}", entry.at("name").get<std::string>(),
                             entry.value("error_message", "failed")));
      continue;
    }
    repetitions[entry.at("run_name").get<std::string>()].push_back(&entry);
  }
  ordered_json measures = ordered_json::object();
  for (const Measure& measure : kMeasures) {
    const auto found = repetitions.find(std::string(measure.benchmark));
    if (found == repetitions.end()) continue;
    std::vector<double> values;
    for (const auto* repetition : found->second)
      values.push_back(ValueOf(*repetition, measure.per));
    const Spread spread = SpreadOf(std::move(values));
    measures[std::string(measure.name)] = {{"median", spread.median},
                                           {"min", spread.least},
                                           {"max", spread.largest},
                                           {"unit", UnitOf(measure.per)}};
  }
  return measures;
}

std::string Print(double value) {
  if (value >= 1e9) return fmt::format("{:.3g} G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.3g} M", value / 1e6);
  return fmt::format("{:.3g}", value);
}

void AddOverhead(CLI::App& bench) {
  auto options = std::make_shared<BenchOverheadOptions>();
  CLI::App* overhead = bench.add_subcommand(
      "overhead", "What each level of watching costs a running engine (E9); needs an idle machine");
  overhead->add_option("experiment", options->config, "Experiment file")->capture_default_str();
  overhead->add_option("--set", options->overrides, "Override a key: a.b.c=value (repeatable)")
      ->allow_extra_args(false);
  overhead->add_option("--workload", options->workload, "Only the workload of that name");
  overhead
      ->add_option("--output", options->output, "Results folder (metrics.json, table, figure, CSV)")
      ->capture_default_str();
  overhead
      ->add_option("--limit", options->limit_s,
                   "Seconds for the whole: fewer blocks, and an early end; 0: as the file says")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  overhead->add_flag("--json", options->json, "Print the cells as JSON");
  overhead->callback([options] { RunBenchOverhead(*options); });
}

}  // namespace

void AddBenchCommand(CLI::App& app) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure what watching costs and how fast analysis is");
  bench->require_subcommand(1);
  auto options = std::make_shared<BenchMicroOptions>();
  CLI::App* micro =
      bench->add_subcommand("micro", "Cost of one event, rates of drain, trees, TPE and import");
  micro->add_option("--repetitions", options->repetitions, "Of each measure, interleaved")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  micro->add_option("--filter", options->filter, "Only benchmarks whose name matches")
      ->capture_default_str();
  micro->add_flag("--json", options->json, "Print JSON");
  micro->callback([options] { RunBenchMicro(*options); });
  AddOverhead(*bench);
}

void RunBenchMicro(const BenchMicroOptions& options) {
  const std::string text = OutputOf(
      {"--benchmark_format=json", fmt::format("--benchmark_repetitions={}", options.repetitions),
       "--benchmark_min_time=0.05", "--benchmark_enable_random_interleaving=true",
       "--benchmark_filter=" + options.filter});
  const auto report = nlohmann::json::parse(text, nullptr, false);
  if (!report.is_object() || !report.contains("benchmarks")) {
    throw DeviceError("teller-benchmarks printed no report: does the filter match anything?");
  }
  const ordered_json measures = Summarize(report);
  if (options.json) {
    fmt::print("{}\n", measures.dump(2));
    return;
  }
  TextTable table({"measure", "median", "min", "max", "unit"});
  for (const auto& [name, value] : measures.items()) {
    table.AddRow({name, Print(value["median"]), Print(value["min"]), Print(value["max"]),
                  value["unit"].get<std::string>()});
  }
  fmt::print("{}", table.ToText());
}

void RunBenchOverhead(const BenchOverheadOptions& options) {
  const experiment::MetricsFile metrics = experiment::RunOverhead({.config = options.config,
                                                                   .overrides = options.overrides,
                                                                   .workload = options.workload,
                                                                   .output = options.output,
                                                                   .limit_s = options.limit_s});
  for (const std::string& note : metrics.notes) LogWarning(note);
  if (!options.json) {
    fmt::print("{}", experiment::OverheadTable(metrics.cells));
    return;
  }
  ordered_json cells = ordered_json::array();
  for (const experiment::Cell& cell : metrics.cells) cells.push_back(ToJson(cell));
  fmt::print("{}\n", ordered_json{{"cells", std::move(cells)}}.dump(1));
}

}  // namespace teller::cli
