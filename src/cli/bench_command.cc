#include "src/cli/bench_command.h"

#include <fmt/format.h>
#include <stdio.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "src/core/error.h"
#include "src/core/interrupt.h"
#include "src/core/log.h"
#include "src/core/text_table.h"

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

constexpr std::array<Measure, 16> kMeasures = {{
    {"nvtx_pair_ns", "BM_NvtxPair/level:1", Per::kIterationNs},
    {"nvtx_off_pair_ns", "BM_NvtxPair/level:0", Per::kIterationNs},
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

/// One argument for the shell, whatever it holds.
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string OutputOf(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "re"),
                                                   [](FILE*) { return 0; });
  if (!pipe) throw DeviceError("cannot start teller-benchmarks");
  std::string output;
  std::array<char, 65536> buffer;
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    output.append(buffer.data(), count);
  }
  const int status = pclose(pipe.get());
  ThrowIfInterrupted();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw DeviceError("teller-benchmarks failed; run it by hand to see why");
  }
  return output;
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
}

void RunBenchMicro(const BenchMicroOptions& options) {
  const std::string command = fmt::format(
      "{} --benchmark_format=json --benchmark_repetitions={} --benchmark_min_time=0.05 "
      "--benchmark_enable_random_interleaving=true --benchmark_filter={} 2>/dev/null",
      Quoted(BenchmarksProgram().string()), options.repetitions, Quoted(options.filter));
  const auto report = nlohmann::json::parse(OutputOf(command), nullptr, false);
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

}  // namespace teller::cli
