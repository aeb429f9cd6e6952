#include "src/dataset/truth_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/core/atomic_file.h"
#include "src/core/error.h"

namespace teller::dataset {
namespace {

using nlohmann::json;

// Keys of one line; every failure becomes a DataError that names the line.
class Line {
 public:
  Line(json object, std::string where) : object_(std::move(object)), where_(std::move(where)) {}

  [[noreturn]] void Fail(const std::string& what) const { throw DataError(where_ + ": " + what); }

  const json& At(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) Fail(fmt::format("key '{}' is missing", key));
    return *found;
  }
  bool Has(const char* key) const { return object_.contains(key); }
  std::map<std::string, double> Numbers(const char* key) const {
    const Line object = Object(key);
    std::map<std::string, double> numbers;
    for (const auto& item : object.object_.items())
      numbers[item.key()] = object.Number(item.key().c_str());
    return numbers;
  }
  Line Object(const char* key) const {
    if (!At(key).is_object()) Fail(fmt::format("key '{}' is not an object", key));
    return {At(key), where_};
  }
  int64_t Int(const char* key) const {
    if (!At(key).is_number_integer()) Fail(fmt::format("key '{}' is not an integer", key));
    return At(key).get<int64_t>();
  }
  double Number(const char* key) const {
    if (!At(key).is_number()) Fail(fmt::format("key '{}' is not a number", key));
    return At(key).get<double>();
  }
  int32_t Int32(const char* key) const {
    const int64_t value = Int(key);
    if (value < INT32_MIN || value > INT32_MAX)
      Fail(fmt::format("key '{}' is {}, out of range", key, value));
    return static_cast<int32_t>(value);
  }
  // null: no rank.
  RankId Rank(const char* key) const { return At(key).is_null() ? kNoRank : RankId{Int32(key)}; }
  std::string Text(const char* key) const {
    if (At(key).is_null()) return {};
    if (!At(key).is_string()) Fail(fmt::format("key '{}' is not a string", key));
    return At(key).get<std::string>();
  }
  bool Bool(const char* key) const {
    if (!At(key).is_boolean()) Fail(fmt::format("key '{}' is not true or false", key));
    return At(key).get<bool>();
  }
  // One of the words, by position.
  std::size_t Word(const char* key, std::initializer_list<std::string_view> words) const {
    const std::string text = Text(key);
    const auto found = std::ranges::find(words, text);
    if (found == words.end())
      Fail(fmt::format("key '{}' is '{}', not one of the words known", key, text));
    return static_cast<std::size_t>(found - words.begin());
  }

 private:
  json object_;
  std::string where_;
};

TruthNode ReadNode(const Line& line) {
  return {line.Text("name"), line.Rank("rank"), line.Int("clock_offset_ns")};
}

void ReadHeader(const Line& line, Truth& truth) {
  if (line.Text("schema_name") != "truth") line.Fail("expected schema 'truth'");
  if (!line.Text("schema_version").starts_with("1.")) {
    line.Fail("schema version '" + line.Text("schema_version") +
              "' is not 1.x; record the run again");
  }
  truth.run_id = line.Text("run_id");
  for (const json& node : line.At("nodes"))
    truth.nodes.push_back(ReadNode({node, "header: nodes"}));
}

TruthPlan ReadPlan(const Line& line) {
  const Line culprit = line.Object("culprit");
  return {.plan_id = line.Int32("plan_id"),
          .stretch = line.Int32("stretch"),
          .kind = line.Text("kind"),
          .family = line.Text("family"),
          .view = line.Word("view", {"horizontal", "vertical"}) == 0 ? View::kHorizontal
                                                                     : View::kVertical,
          .placebo = line.Bool("placebo"),
          .level = line.Int32("level"),
          .culprit_rank = culprit.Rank("rank"),
          .culprit_layer = culprit.Text("layer"),
          .culprit_symbol = culprit.Text("symbol"),
          .step_us = line.Has("step_us") ? line.Number("step_us") : 0,
          .magnitude = line.Numbers("magnitude"),
          .by_stretch = line.Word("where", {"inside", "before", "interval", "stretch"}) == 3};
}

void ReadMeasure(const Line& line, Truth& truth) {
  if (line.Text("name") != "acted" || line.Number("value") == 0) return;
  const int32_t id = line.Int32("plan_id");
  const auto plan = std::ranges::find(truth.plans, id, &TruthPlan::plan_id);
  if (plan == truth.plans.end()) line.Fail("plan " + std::to_string(id) + " was not planned");
  plan->acted = true;
}

TruthAction ReadAction(const Line& line) {
  const auto place = static_cast<ActionPlace>(line.Word("where", {"inside", "before", "interval"}));
  TruthAction action{line.Int32("plan_id"), line.Text("node"),  line.Rank("rank"),
                     line.Int("begin_ns"),  line.Int("end_ns"), place};
  if (action.end_ns < action.begin_ns) line.Fail("the action ends before it begins");
  return action;
}

void ReadLine(const Line& line, Truth& truth) {
  const std::string type = line.Text("type");
  if (type == "header") {
    ReadHeader(line, truth);
  } else if (type == "calibration") {
    truth.calibration.push_back({line.Text("node"), line.Int("begin_ns"), line.Int("end_ns")});
  } else if (type == "plan") {
    truth.plans.push_back(ReadPlan(line));
  } else if (type == "stretch_begin" || type == "stretch_end") {
    truth.edges.push_back(
        {line.Int32("plan_id"), type == "stretch_begin", line.Text("node"), line.Int("time_ns")});
  } else if (type == "action") {
    truth.actions.push_back(ReadAction(line));
  } else if (type == "lost") {
    truth.lost += line.Int("count");
  } else if (type == "footer") {
    truth.complete =
        line.Bool("complete") && line.Int("actions") == static_cast<int64_t>(truth.actions.size());
  } else if (type == "measure") {
    ReadMeasure(line, truth);
  } else {
    ++truth.unknown_lines;
  }
}

void CheckPlans(const Truth& truth, const std::string& name) {
  const auto planned = [&](int32_t id) {
    return std::ranges::any_of(truth.plans,
                               [&](const TruthPlan& plan) { return plan.plan_id == id; });
  };
  for (const TruthEdge& edge : truth.edges) {
    if (!planned(edge.plan_id))
      throw DataError(
          fmt::format("{}: a stretch names plan {}, which is not planned", name, edge.plan_id));
  }
  for (const TruthAction& action : truth.actions) {
    if (!planned(action.plan_id))
      throw DataError(
          fmt::format("{}: an action names plan {}, which is not planned", name, action.plan_id));
  }
}

}  // namespace

Truth ParseTruth(std::string_view text, const std::string& name) {
  Truth truth;
  bool header = false;
  for (int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const bool cut_short = end == std::string_view::npos;
    text.remove_prefix(cut_short ? text.size() : end + 1);
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", name, number);
    json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) {
      if (cut_short) break;  // the injector was killed while it wrote
      throw DataError(where + ": expected a JSON object");
    }
    ReadLine({std::move(object), where}, truth);
    header |= number == 1 && !truth.run_id.empty();
  }
  if (!header) throw DataError(name + ": the first line is not a header of schema 'truth'");
  CheckPlans(truth, name);
  return truth;
}

Truth ReadTruth(const std::filesystem::path& path) {
  return ParseTruth(ReadFile(path), path.string());
}

}  // namespace teller::dataset
