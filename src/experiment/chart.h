#pragma once

#include <string>
#include <vector>

namespace teller::experiment {

/// A point with what surrounds it; NaN where there is no range.
struct ChartPoint {
  double x = 0, y = 0;
  double low = 0, high = 0;
  std::string label;  ///< written beside the point, for example the vocabulary's size
};

/// Series differ by shape, dash and grey, so that the figure reads without colour.
enum class MarkerShape { kCircle, kSquare, kTriangle, kDiamond, kCross };

struct ChartSeries {
  std::string name;
  MarkerShape marker = MarkerShape::kCircle;
  bool filled = true;
  bool line = true;  ///< joins the points
  std::string dash;  ///< SVG dash pattern; empty: solid
  std::string colour = "#000000";
  std::vector<ChartPoint> points;
};

struct Axis {
  std::string title;         ///< with its unit
  double low = 0, high = 1;  ///< at the left or bottom, at the right or top; low may be above high
  std::vector<double> ticks;
  bool logarithmic = false;
};

struct Panel {
  std::string title;
  Axis x, y;
  std::vector<ChartSeries> series;
};

/// Panels side by side with one legend below, as a self-contained SVG. Values outside an axis are
/// drawn at its edge.
std::string DrawChart(const std::string& title, const std::vector<Panel>& panels);

/// `text` with &, <, > and quotes escaped for XML and HTML.
std::string EscapeXml(const std::string& text);

}  // namespace teller::experiment
