#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace teller::testing_support {

/// Lines of truth.jsonl; a last line that is not whole fails the test.
inline std::vector<nlohmann::json> ReadTruth(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    lines.push_back(nlohmann::json::parse(text, nullptr, false));
    EXPECT_FALSE(lines.back().is_discarded()) << text;
  }
  return lines;
}

inline std::vector<nlohmann::json> OfType(const std::vector<nlohmann::json>& lines,
                                          const std::string& type) {
  std::vector<nlohmann::json> found;
  for (const auto& line : lines) {
    if (line.at("type") == type) found.push_back(line);
  }
  return found;
}

/// Every line has the keys that docs/schema/truth.md lists for its type, the first is the header
/// and the last the footer.
inline void ExpectTruthSchema(const std::vector<nlohmann::json>& lines) {
  const std::map<std::string, std::set<std::string>> keys = {
      {"header", {"type", "schema_name", "schema_version", "run_id", "seed", "nodes"}},
      {"calibration", {"type", "node", "begin_ns", "end_ns"}},
      {"plan",
       {"type", "plan_id", "stretch", "kind", "family", "view", "placebo", "level", "step_us",
        "magnitude", "target", "culprit", "where"}},
      {"stretch_begin", {"type", "plan_id", "stretch", "node", "time_ns"}},
      {"stretch_end", {"type", "plan_id", "stretch", "node", "time_ns"}},
      {"action", {"type", "plan_id", "node", "rank", "begin_ns", "end_ns", "what", "where"}},
      {"measure", {"type", "plan_id", "node", "name", "unit", "value"}},
      {"lost", {"type", "plan_id", "node", "count", "reason"}},
      {"footer", {"type", "complete", "actions"}}};
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.front().at("type"), "header");
  EXPECT_EQ(lines.back().at("type"), "footer");
  EXPECT_EQ(lines.back().at("actions"), OfType(lines, "action").size());
  for (const auto& line : lines) {
    std::set<std::string> found;
    for (const auto& [key, value] : line.items()) found.insert(key);
    EXPECT_EQ(found, keys.at(line.at("type").get<std::string>())) << line;
  }
}

}  // namespace teller::testing_support
