#include "src/experiment/cell.h"

#include <fmt/format.h>

#include <cmath>

#include "src/core/atomic_file.h"
#include "src/core/error.h"

namespace teller::experiment {
namespace {
using Json = nlohmann::ordered_json;

constexpr const char* kSchemaName = "metrics";
constexpr const char* kSchemaVersion = "1.0";

std::optional<double> Defined(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::optional<double> ReadNumber(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? std::nullopt
                                                 : std::optional(found->get<double>());
}

}  // namespace

Cell MakeCell(std::string table, Json row, std::string metric, const Estimate& estimate) {
  Cell cell{.table = std::move(table), .row = std::move(row), .metric = std::move(metric)};
  cell.value = Defined(estimate.value);
  cell.low = Defined(estimate.low);
  cell.high = Defined(estimate.high);
  cell.is_interval = estimate.is_interval;
  cell.n = estimate.steps;
  return cell;
}

Cell MakeCell(std::string table, Json row, std::string metric, double value, int64_t n) {
  Cell cell{.table = std::move(table), .row = std::move(row), .metric = std::move(metric)};
  cell.value = Defined(value);
  cell.n = n;
  return cell;
}

Json ToJson(const Cell& cell) {
  Json json{{"table", cell.table},         {"row", cell.row},         {"metric", cell.metric},
            {"value", OrNull(cell.value)}, {"low", OrNull(cell.low)}, {"high", OrNull(cell.high)}};
  if (cell.low) json["interval"] = cell.is_interval ? "ci95" : "range";
  if (cell.published) json["published"] = *cell.published;
  json["n"] = cell.n;
  json["stale"] = cell.stale;
  return json;
}

Cell CellFromJson(const Json& json) {
  Cell cell{.table = json.at("table"), .row = json.at("row"), .metric = json.at("metric")};
  cell.value = ReadNumber(json, "value");
  cell.low = ReadNumber(json, "low");
  cell.high = ReadNumber(json, "high");
  cell.is_interval = json.value("interval", "") == "ci95";
  cell.published = ReadNumber(json, "published");
  cell.n = json.at("n");
  cell.stale = json.value("stale", false);
  return cell;
}

void WriteMetrics(const std::filesystem::path& path, const MetricsFile& metrics, bool force) {
  Json cells = Json::array();
  for (const Cell& cell : metrics.cells) cells.push_back(ToJson(cell));
  const Json json{{"schema_name", kSchemaName},       {"schema_version", kSchemaVersion},
                  {"experiment", metrics.experiment}, {"config_hash", metrics.config_hash},
                  {"provenance", metrics.provenance}, {"notes", metrics.notes},
                  {"cells", std::move(cells)}};
  WriteFileAtomically(path, json.dump(1) + "\n", force);
}

MetricsFile ReadMetrics(const std::filesystem::path& path) {
  const std::string text = ReadFile(path, std::size_t{256} << 20);
  try {
    const Json json = Json::parse(text);
    if (json.at("schema_name") != kSchemaName ||
        !json.at("schema_version").get<std::string>().starts_with("1.")) {
      throw DataError(fmt::format("{}: expected metrics of schema version 1, found {} {}",
                                  path.string(), json.at("schema_name").dump(),
                                  json.at("schema_version").dump()));
    }
    MetricsFile metrics;
    metrics.experiment = json.at("experiment");
    metrics.config_hash = json.at("config_hash");
    metrics.provenance = json.at("provenance");
    metrics.notes = json.at("notes").get<std::vector<std::string>>();
    for (const Json& cell : json.at("cells")) metrics.cells.push_back(CellFromJson(cell));
    return metrics;
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("{}: not a metrics file: {}", path.string(), error.what()));
  }
}

}  // namespace teller::experiment
