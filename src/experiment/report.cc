#include "src/experiment/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/experiment/chart.h"
#include "src/experiment/table_layout.h"

namespace teller::experiment {
namespace fs = std::filesystem;
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr const char* kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; margin: 2rem auto; max-width: 96rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: .85rem; display: block; overflow-x: auto; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th.key, td.key { text-align: left; } thead th { border-bottom: 2px solid #444; }
p.caption, dl { color: #555; font-size: .85rem; max-width: 60rem; } svg { max-width: 100%; height: auto; }
)";

/// One series of the figure and which rows of E3 it shows.
struct SeriesStyle {
  const char* name;
  const char* source;
  const char* view;
  const char* mode;
  const char* inputs;
  MarkerShape marker;
  bool filled;
  const char* dash;
  const char* colour;
};

constexpr SeriesStyle kSeries[] = {
    {"structural, tokens only", "here", "combined", "structural", "tokens", MarkerShape::kCircle,
     true, "", "#000000"},
    {"structural, full model", "here", "combined", "structural", "full", MarkerShape::kCircle,
     false, "", "#000000"},
    {"adjacency, tokens only", "here", "combined", "adjacency", "tokens", MarkerShape::kSquare,
     true, "6 3", "#6a6a6a"},
    {"adjacency, full model", "here", "combined", "adjacency", "full", MarkerShape::kSquare, false,
     "6 3", "#6a6a6a"},
    {"published, horizontal (another test set)", "published", "horizontal", "adjacency-published",
     "", MarkerShape::kTriangle, true, "2 3", "#9a9a9a"},
    {"published, vertical (another test set)", "published", "vertical", "adjacency-published", "",
     MarkerShape::kTriangle, false, "2 3", "#9a9a9a"},
};

bool Shows(const SeriesStyle& style, const Cell& cell) {
  const auto is = [&](const char* key, const char* wanted) {
    return cell.row.value(key, "") == wanted;
  };
  return cell.table == "E3" && is("source", style.source) && is("view", style.view) &&
         is("mode", style.mode) && is("inputs", style.inputs);
}

double ValueOf(const Cell& cell) {
  return cell.value ? *cell.value : cell.published.value_or(kNaN);
}

/// Points of a series for one metric, by compression.
std::vector<ChartPoint> PointsOf(const SeriesStyle& style, const std::string& metric,
                                 std::span<const Cell> cells) {
  std::map<std::string, double> compression;
  for (const Cell& cell : cells) {
    if (Shows(style, cell) && cell.metric == "compression")
      compression[cell.row.dump()] = ValueOf(cell);
  }
  std::vector<ChartPoint> points;
  for (const Cell& cell : cells) {
    const auto found = compression.find(cell.row.dump());
    if (!Shows(style, cell) || cell.metric != metric || found == compression.end() ||
        std::isnan(ValueOf(cell)))
      continue;
    points.push_back(
        {.x = 100 * (1 - found->second),
         .y = ValueOf(cell),
         .low = cell.low.value_or(kNaN),
         .high = cell.high.value_or(kNaN),
         .label = cell.row.contains("vocabulary") ? cell.row["vocabulary"].dump() : ""});
  }
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x > b.x; });
  return points;
}

Panel TradeOffPanel(const std::string& title, const std::string& metric,
                    std::span<const Cell> cells) {
  Panel panel{.title = title,
              .x = {"tokens kept, tokens / nodes (%), logarithmic",
                    100,
                    .1,
                    {100, 50, 20, 10, 5, 2, 1, .5, .2, .1},
                    true},
              .y = {title, 0, 1, {0, .2, .4, .6, .8, 1}}};
  for (const SeriesStyle& style : kSeries) {
    ChartSeries series{.name = style.name,
                       .marker = style.marker,
                       .filled = style.filled,
                       .dash = style.dash,
                       .colour = style.colour,
                       .points = PointsOf(style, metric, cells)};
    if (!series.points.empty()) panel.series.push_back(std::move(series));
  }
  return panel;
}

std::string HtmlTable(const TextTable& table, std::size_t key_columns) {
  std::string html = "<table><thead><tr>";
  for (std::size_t i = 0; i < table.header().size(); ++i) {
    html +=
        (i < key_columns ? "<th class=\"key\">" : "<th>") + EscapeXml(table.header()[i]) + "</th>";
  }
  html += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows()) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      html += (i < key_columns ? "<td class=\"key\">" : "<td>") + EscapeXml(row[i]) + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

bool HasTable(const std::string& table, std::span<const Cell> cells) {
  return std::any_of(cells.begin(), cells.end(),
                     [&](const Cell& cell) { return cell.table == table; });
}

std::size_t KeyColumns(const TableLayout& layout, const TextTable& table) {
  return static_cast<std::size_t>(
      std::count_if(layout.row_keys.begin(), layout.row_keys.end(), [&](const auto& key) {
        return std::find(table.header().begin(), table.header().end(), key.second) !=
               table.header().end();
      }));
}

std::string Provenance(const MetricsFile& metrics) {
  std::string text = "<dl>";
  for (const auto& [key, value] : metrics.provenance.items()) {
    text += fmt::format("<dt>{}</dt><dd>{}</dd>", EscapeXml(key),
                        EscapeXml(value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return text +
         fmt::format("<dt>configuration</dt><dd>{}</dd></dl>\n", EscapeXml(metrics.config_hash));
}

/// Runs, stretches and steps that the numbers stand on.
std::string TestSet(const MetricsFile& metrics) {
  return metrics.provenance.value("test_set", "test set not stated");
}

std::string LatexTable(const TableLayout& layout, const TextTable& table) {
  return fmt::format("% {}\n{}", layout.title, table.ToLatex());
}

}  // namespace

std::string TradeOffFigure(std::span<const Cell> cells) {
  return DrawChart("Compression against diagnosis quality (combined view, test runs)",
                   {TradeOffPanel("step F1 at 43 % prior", "f1", cells),
                    TradeOffPanel("operator macro-F1", "operator_macro_f1", cells)});
}

std::string HtmlReport(const MetricsFile& metrics) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Teller: "
      "{0}</title><style>{1}</style></head>"
      "<body>\n<h1>Teller: {0}</h1>\n",
      EscapeXml(metrics.experiment), kStyle);
  for (const TableLayout& layout : Layouts()) {
    if (!HasTable(layout.table, metrics.cells)) continue;
    const TextTable table = FillTable(layout, metrics.cells);
    html += fmt::format("<h2 id=\"{}\">{}</h2>\n", layout.table, EscapeXml(layout.title));
    html += HtmlTable(table, KeyColumns(layout, table));
    html +=
        "<p class=\"caption\">" + EscapeXml(TestSet(metrics) + ". " + layout.caption) + "</p>\n";
  }
  html += "<h2>Figure. The trade-off</h2>\n" + TradeOffFigure(metrics.cells);
  if (!metrics.notes.empty()) html += "<h2>Notes</h2>\n<ul>";
  for (const std::string& note : metrics.notes) html += "<li>" + EscapeXml(note) + "</li>\n";
  if (!metrics.notes.empty()) html += "</ul>\n";
  return html + "<h2>Where this comes from</h2>\n" + Provenance(metrics) + "</body></html>\n";
}

std::string TextReport(const MetricsFile& metrics) {
  std::string text;
  for (const TableLayout& layout : Layouts()) {
    if (!HasTable(layout.table, metrics.cells)) continue;
    if (!layout.in_terminal) continue;
    text += fmt::format("{}\n{}\n\n{}\n", layout.title, TestSet(metrics),
                        FillTable(layout, metrics.cells).ToText());
  }
  for (const std::string& note : metrics.notes) text += "note: " + note + "\n";
  return text;
}

std::vector<fs::path> WriteReport(const MetricsFile& metrics, const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder / "tables", error);
  if (error)
    throw ConfigError(
        fmt::format("report folder '{}' cannot be made: {}", folder.string(), error.message()));
  std::vector<fs::path> written;
  const auto write = [&](const fs::path& name, const std::string& text) {
    WriteFileAtomically(folder / name, text, true);
    written.push_back(folder / name);
  };
  for (const TableLayout& layout : Layouts()) {
    if (!HasTable(layout.table, metrics.cells)) continue;
    const TextTable table = FillTable(layout, metrics.cells);
    const fs::path stem = fs::path("tables") / layout.table;
    write(stem.string() + ".md", fmt::format("## {}\n\n{}\n{}\n", layout.title, table.ToMarkdown(),
                                             TestSet(metrics) + ". " + layout.caption));
    write(stem.string() + ".csv", table.ToCsv());
    write(stem.string() + ".tex", LatexTable(layout, table));
  }
  write("trade_off.svg", TradeOffFigure(metrics.cells));
  write("report.html", HtmlReport(metrics));
  return written;
}

}  // namespace teller::experiment
