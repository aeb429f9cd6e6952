#include "src/diagnose/html_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "src/core/version.h"
#include "src/diagnose/page.h"
#include "src/diagnose/page_nodes.h"
#include "src/diagnose/report.h"
#include "src/diagnose/report_json.h"

namespace teller::diagnose {
namespace {

using Json = nlohmann::json;
using reconstruct::StepForest;
using reconstruct::StepNode;

constexpr std::size_t kLogSteps = 5;         // before and after a step, whose log lines are shown
constexpr std::size_t kPageLogs = 2000;      // lines of one step
constexpr std::size_t kPageNameBytes = 300;  // of an operator

std::string Shortened(std::string_view name) {
  if (name.size() <= kPageNameBytes) return std::string(name);
  return std::string(name.substr(0, kPageNameBytes)) + "...";
}

/// A step's forest as columns; times in nanoseconds from the step's begin.
class StepPage {
 public:
  /// @param around  steps whose log lines are shown, `step` among them
  StepPage(const StepForest& step, std::span<const StepForest> around,
           const StringInterner& symbols)
      : step_(step), around_(around), symbols_(symbols) {
    for (std::size_t i = 0; i < step.ranks.size(); ++i) position_[step.ranks[i]] = i;
  }

  Json Columns(const StepDiagnosis& diagnosis, std::size_t limit) {
    std::vector<NodeId> wanted;
    for (const Suspect& suspect : diagnosis.suspects) wanted.push_back(suspect.node);
    std::erase(wanted, kNoNode);
    const std::vector<NodeId> chosen = ChoosePageNodes(step_, wanted, limit);
    Json page = Nodes(chosen);
    page["left_out"] = step_.nodes.size() - chosen.size();
    page["edges"] = Edges();
    page["tracks"] = Tracks();
    page["suspect_nodes"] = Json::array();
    for (const Suspect& suspect : diagnosis.suspects) {
      page["suspect_nodes"].push_back(suspect.node == kNoNode ? -1 : place_.at(suspect.node));
    }
    page["logs"] = Logs();
    page["phase"] = reconstruct::PhaseName(step_.phase);
    page["batch"] = step_.batch_size;
    page["ranks"] = Json::array();
    for (std::size_t i = 0; i < step_.ranks.size(); ++i) {
      page["ranks"].push_back({static_cast<int32_t>(step_.ranks[i]),
                               step_.rank_begin_ns[i] - step_.begin_ns,
                               step_.rank_end_ns[i] - step_.begin_ns});
    }
    page["symbols"] = std::move(names_);
    return page;
  }

 private:
  Json Nodes(const std::vector<NodeId>& chosen) {
    for (const NodeId node : chosen) place_.emplace(node, static_cast<int>(place_.size()));
    Json symbol = Json::array(), track = Json::array(), layer = Json::array(),
         parent = Json::array(), begin = Json::array(), length = Json::array(),
         self = Json::array();
    for (const NodeId id : chosen) {
      const StepNode& node = step_.nodes[Index(id)];
      symbol.push_back(SymbolOf(node.symbol));
      track.push_back(node.track);
      layer.push_back(static_cast<int>(node.layer));
      parent.push_back(node.parent == kNoNode ? -1 : place_.at(node.parent));
      begin.push_back(BeginOf(node));
      length.push_back(node.duration_ns);
      self.push_back(step_.tracks[node.track].device ? node.device_busy_ns : node.host_self_ns);
    }
    return {{"symbol", std::move(symbol)}, {"track", std::move(track)},
            {"layer", std::move(layer)},   {"parent", std::move(parent)},
            {"begin", std::move(begin)},   {"length", std::move(length)},
            {"self", std::move(self)}};
  }

  int64_t BeginOf(const StepNode& node) const {
    const std::size_t rank = position_.at(step_.tracks[node.track].rank);
    return step_.rank_begin_ns[rank] - step_.begin_ns + node.begin_ns;
  }

  int SymbolOf(SymbolId symbol) {
    const auto [found, fresh] = symbol_place_.try_emplace(symbol, static_cast<int>(names_.size()));
    if (fresh)
      names_.push_back(Shortened(symbols_.View(StringId{static_cast<uint32_t>(Index(symbol))})));
    return found->second;
  }

  Json Edges() const {
    Json edges = Json::array();
    for (const auto& edge : step_.edges) {
      const auto from = place_.find(edge.from), to = place_.find(edge.to);
      if (from == place_.end() || to == place_.end()) continue;
      edges.push_back({from->second, to->second, static_cast<int>(edge.type)});
    }
    return edges;
  }

  Json Tracks() const {
    Json tracks = Json::array();
    for (const auto& track : step_.tracks)
      tracks.push_back({static_cast<int32_t>(track.rank), track.track, track.device});
    return tracks;
  }

  /// Lines of this step and its neighbours, each with its offset from this step's begin and whether
  /// it is of this step.
  Json Logs() const {
    std::vector<std::tuple<int64_t, bool, const reconstruct::StepLogLine*>> lines;
    for (const StepForest& other : around_) {
      for (const auto& line : other.logs) {
        lines.emplace_back(other.begin_ns - step_.begin_ns + line.offset_ns, &other == &step_,
                           &line);
      }
    }
    std::stable_sort(lines.begin(), lines.end(),
                     [](const auto& a, const auto& b) { return std::get<0>(a) < std::get<0>(b); });
    if (lines.size() > kPageLogs) lines.resize(kPageLogs);
    Json logs = Json::array();
    for (const auto& [offset_ns, own, line] : lines)
      logs.push_back({static_cast<int32_t>(line->rank), offset_ns, line->text, own});
    return logs;
  }

  const StepForest& step_;
  std::span<const StepForest> around_;
  const StringInterner& symbols_;
  std::map<RankId, std::size_t> position_;
  std::map<NodeId, int> place_;
  std::map<SymbolId, int> symbol_place_;
  std::vector<std::string> names_;
};

/// The steps that get a timeline: the worst, or the one with the highest score.
std::vector<const StepDiagnosis*> StepsShown(const RunDiagnosis& run, std::size_t limit) {
  std::vector<const StepDiagnosis*> shown = WorstSteps(run);
  if (shown.empty() && !run.steps.empty()) {
    shown.push_back(&*std::max_element(
        run.steps.begin(), run.steps.end(),
        [](const StepDiagnosis& a, const StepDiagnosis& b) { return a.score < b.score; }));
  }
  if (shown.size() > limit) shown.resize(limit);
  return shown;
}

Json Details(const RunDiagnosis& run, const dataset::StepsFile& steps, const HtmlOptions& options) {
  const std::span<const StepForest> all = steps.run.steps;
  std::map<int64_t, std::size_t> place;
  for (std::size_t i = 0; i < all.size(); ++i) place[all[i].engine_step] = i;
  const auto shown = StepsShown(run, options.steps);
  Json details = Json::array();
  for (const StepDiagnosis* step : shown) {
    const std::size_t at = place.at(step->engine_step);
    const std::size_t first = at - std::min(at, kLogSteps);
    const auto around = all.subspan(first, std::min(all.size(), at + kLogSteps + 1) - first);
    Json detail = StepJson(*step);
    detail["forest"] =
        StepPage(all[at], around, steps.run.symbols).Columns(*step, options.nodes / shown.size());
    details.push_back(std::move(detail));
  }
  return details;
}

/// Every step's length, score and whether it is abnormal, as columns; of more than `limit` the
/// abnormal ones and evenly chosen others.
Json Overview(const RunDiagnosis& run, std::size_t limit) {
  Json id = Json::array(), length = Json::array(), score = Json::array(), abnormal = Json::array();
  const std::size_t every = run.steps.size() / std::max<std::size_t>(1, limit) + 1;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const StepDiagnosis& step = run.steps[i];
    if (i % every != 0 && !(step.abnormal && id.size() < 2 * limit)) continue;
    id.push_back(step.engine_step);
    length.push_back(step.end_ns - step.begin_ns);
    score.push_back(step.score);
    abnormal.push_back(step.abnormal ? 1 : 0);
  }
  return {{"step", std::move(id)},
          {"length", std::move(length)},
          {"score", std::move(score)},
          {"abnormal", std::move(abnormal)},
          {"of", run.steps.size()}};
}

/// JSON that may stand inside a script element.
std::string Embedded(const Json& json) {
  std::string embedded;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      embedded += "\\u003c";
    } else {
      embedded += c;
    }
  }
  return embedded;
}

void Fill(std::string& page, std::string_view mark, std::string_view part) {
  page.replace(page.find(mark), mark.size(), part);
}

}  // namespace

std::string ReportHtml(const RunDiagnosis& run, const dataset::StepsFile& steps,
                       const HtmlOptions& options) {
  const Json data = {{"title", options.title},
                     {"run", run.run_id},
                     {"engine", steps.engine},
                     {"made_by", Version()},
                     {"verdict", VerdictName(run.verdict)},
                     {"basis", BasisName(run.basis)},
                     {"headline", Headline(run)},
                     {"clock_aligned", steps.clock_aligned},
                     {"clock_residual_ns", steps.clock_residual_ns},
                     {"overview", Overview(run, options.overview)},
                     {"steps", Details(run, steps, options)},
                     {"late_starters", LateStartersJson(run)},
                     {"notes", run.notes},
                     {"not_looked_at", NotLookedAtJson(run)}};
  std::string page = kPageHtml;
  Fill(page, "<!--css-->", kPageCss);
  Fill(page, "<!--js-->", kPageJs);
  Fill(page, "<!--data-->", Embedded(data));
  return page;
}

}  // namespace teller::diagnose
