#include "src/experiment/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace teller::experiment {
namespace {

// Geometry in SVG user units (pixels at 100 %).
constexpr double kPanelWidth = 400, kPanelHeight = 300;
constexpr double kLeft = 66, kRight = 26, kTop = 62, kBottom = 52, kLegendLine = 20;
constexpr double kMarkerRadius = 4.5;
constexpr const char* kFont = "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\"";

/// Where a value lies on an axis, 0 to 1; beyond the ends at the end.
double ShareOf(const Axis& axis, double value) {
  const auto place = [&](double x) {
    return axis.logarithmic ? std::log10(std::max(x, 1e-12)) : x;
  };
  return std::clamp((place(value) - place(axis.low)) / (place(axis.high) - place(axis.low)), 0.0,
                    1.0);
}

/// Maps data to pixels within one panel.
struct Scale {
  const Panel& panel;
  double left, top;

  double X(double x) const { return left + ShareOf(panel.x, x) * kPanelWidth; }
  double Y(double y) const { return top + (1 - ShareOf(panel.y, y)) * kPanelHeight; }
};

std::string Line(double x1, double y1, double x2, double y2, const std::string& stroke,
                 double width, const std::string& dash = "") {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
      "stroke-width=\"{}\"{}/>\n",
      x1, y1, x2, y2, stroke, width,
      dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash));
}

std::string Text(double x, double y, const std::string& text, int size, const std::string& anchor,
                 const std::string& more = "") {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" text-anchor=\"{}\" {} {}>{}</text>\n", x, y,
      size, anchor, kFont, more, EscapeXml(text));
}

std::string Polygon(const std::vector<std::pair<double, double>>& corners,
                    const std::string& paint) {
  std::string points;
  for (const auto& [x, y] : corners) points += fmt::format("{:.1f},{:.1f} ", x, y);
  return fmt::format("<polygon points=\"{}\" {}/>\n", points, paint);
}

std::string Marker(const ChartSeries& series, double x, double y) {
  const double r = kMarkerRadius;
  const std::string paint = fmt::format("fill=\"{}\" stroke=\"{}\" stroke-width=\"1.4\"",
                                        series.filled ? series.colour : "#ffffff", series.colour);
  switch (series.marker) {
    case MarkerShape::kCircle:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" {}/>\n", x, y, r, paint);
    case MarkerShape::kSquare:
      return Polygon({{x - r, y - r}, {x + r, y - r}, {x + r, y + r}, {x - r, y + r}}, paint);
    case MarkerShape::kTriangle:
      return Polygon({{x, y - r * 1.2}, {x + r * 1.1, y + r}, {x - r * 1.1, y + r}}, paint);
    case MarkerShape::kDiamond:
      return Polygon({{x, y - r * 1.3}, {x + r * 1.3, y}, {x, y + r * 1.3}, {x - r * 1.3, y}},
                     paint);
    case MarkerShape::kCross:
      break;
  }
  return Line(x - r, y - r, x + r, y + r, series.colour, 2) +
         Line(x - r, y + r, x + r, y - r, series.colour, 2);
}

std::string DrawAxes(const Panel& panel, const Scale& scale) {
  const double bottom = scale.top + kPanelHeight, right = scale.left + kPanelWidth;
  std::string svg;
  for (const double x : panel.x.ticks) {
    svg += Line(scale.X(x), scale.top, scale.X(x), bottom, "#e4e4e4", 1) +
           Text(scale.X(x), bottom + 17, fmt::format("{:g}", x), 12, "middle");
  }
  for (const double y : panel.y.ticks) {
    svg += Line(scale.left, scale.Y(y), right, scale.Y(y), "#e4e4e4", 1) +
           Text(scale.left - 7, scale.Y(y) + 4, fmt::format("{:g}", y), 12, "end");
  }
  svg += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"none\" "
      "stroke=\"#404040\"/>\n",
      scale.left, scale.top, kPanelWidth, kPanelHeight);
  svg += Text(scale.left + kPanelWidth / 2, bottom + 38, panel.x.title, 13, "middle");
  svg += Text(scale.left - 44, scale.top + kPanelHeight / 2, panel.y.title, 13, "middle",
              fmt::format("transform=\"rotate(-90 {:.1f} {:.1f})\"", scale.left - 44,
                          scale.top + kPanelHeight / 2));
  return svg + Text(scale.left + kPanelWidth / 2, scale.top - 10, panel.title, 14, "middle",
                    "font-weight=\"bold\"");
}

std::string DrawRange(const ChartSeries& series, const ChartPoint& point, const Scale& scale) {
  if (std::isnan(point.low) || std::isnan(point.high)) return "";
  const double x = scale.X(point.x), low = scale.Y(point.low), high = scale.Y(point.high);
  return Line(x, low, x, high, series.colour, 1) + Line(x - 3, low, x + 3, low, series.colour, 1) +
         Line(x - 3, high, x + 3, high, series.colour, 1);
}

/// Filled markers carry their label above, hollow ones below, so that neighbours stay legible.
std::string PointLabel(const ChartSeries& series, const ChartPoint& point, double x, double y) {
  return Text(x, series.filled ? y - 8 : y + 15, point.label, 10, "middle", "fill=\"#303030\"");
}

std::string DrawSeries(const ChartSeries& series, const Scale& scale) {
  std::string lines, marks;
  const ChartPoint* before = nullptr;
  for (const ChartPoint& point : series.points) {
    const double x = scale.X(point.x), y = scale.Y(point.y);
    if (series.line && before != nullptr) {
      lines += Line(scale.X(before->x), scale.Y(before->y), x, y, series.colour, 1.5, series.dash);
    }
    lines += DrawRange(series, point, scale);
    marks += Marker(series, x, y);
    if (!point.label.empty()) marks += PointLabel(series, point, x, y);
    before = &point;
  }
  return lines + marks;
}

std::vector<const ChartSeries*> LegendOf(const std::vector<Panel>& panels) {
  std::vector<const ChartSeries*> legend;
  for (const Panel& panel : panels) {
    for (const ChartSeries& series : panel.series) {
      const bool known = std::any_of(legend.begin(), legend.end(),
                                     [&](auto* other) { return other->name == series.name; });
      if (!known) legend.push_back(&series);
    }
  }
  return legend;
}

std::string DrawLegendEntry(const ChartSeries& series, double x, double y) {
  return (series.line ? Line(x, y, x + 34, y, series.colour, 1.5, series.dash) : "") +
         Marker(series, x + 17, y) + Text(x + 42, y + 4, series.name, 12, "start");
}

}  // namespace

std::string EscapeXml(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string DrawChart(const std::string& title, const std::vector<Panel>& panels) {
  const double panel_step = kLeft + kPanelWidth + kRight;
  const double width = panel_step * static_cast<double>(panels.size());
  const std::vector<const ChartSeries*> legend = LegendOf(panels);
  const std::size_t legend_rows = (legend.size() + 1) / 2;
  const double legend_top = kTop + kPanelHeight + kBottom + 14;
  const double height = legend_top + kLegendLine * static_cast<double>(legend_rows);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      width, height);
  svg += Text(width / 2, 24, title, 16, "middle", "font-weight=\"bold\"");
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const Scale scale{panels[i], panel_step * static_cast<double>(i) + kLeft, kTop};
    svg += DrawAxes(panels[i], scale);
    for (const ChartSeries& series : panels[i].series) svg += DrawSeries(series, scale);
  }
  for (std::size_t i = 0; i < legend.size(); ++i) {
    const double x = kLeft + (i % 2 == 0 ? 0 : width / 2 - kLeft / 2);
    svg += DrawLegendEntry(*legend[i], x, legend_top + kLegendLine * static_cast<double>(i / 2));
  }
  return svg + "</svg>\n";
}

}  // namespace teller::experiment
