// Call trees and steps of small hand-made traces, one case for every tie and trap (README.md beside
// this file).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "src/core/atomic_file.h"
#include "src/core/error.h"
#include "src/reconstruct/run_builder.h"

namespace teller::reconstruct {
namespace {

namespace fs = std::filesystem;
using trace::Event;
using trace::EventTable;

struct Process {
  trace::ProcessInfo info;
  ClockMap clock;
  EventTable events;
};

struct Input {
  StringInterner strings;
  std::vector<Process> processes;
};

template <typename Code, typename Name>
Code CodeNamed(const std::string& word, int count, Name name) {
  for (int code = 0; code < count; ++code) {
    if (name(static_cast<Code>(code)) == word) return static_cast<Code>(code);
  }
  throw DataError("unknown word '" + word + "'");
}

std::map<std::string, std::string> KeysOf(const std::string& text) {
  std::map<std::string, std::string> keys;
  std::istringstream in(text);
  for (std::string word; in >> word;)
    keys[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  return keys;
}

void ReadProcess(const std::string& line, Input& input) {
  auto keys = KeysOf(line.substr(line.find(' ')));
  Process& process = input.processes.emplace_back();
  process.info.rank = RankId{std::stoi(keys.at("rank"))};
  if (keys.contains("offset")) process.clock.offset_ns = std::stoll(keys["offset"]);
}

void ReadEvent(const std::string& line, Input& input) {
  const std::size_t bar = line.find('|');
  std::istringstream in(line.substr(0, bar));
  std::string track, layer, kind, name;
  Event event;
  in >> track >> layer >> kind >> event.begin_ns >> event.end_ns >> std::ws;
  std::getline(in, name);
  name.erase(name.find_last_not_of(' ') + 1);
  event.name = input.strings.Intern(name);
  event.layer = CodeNamed<trace::Layer>(layer, trace::kLayerCount, trace::LayerName);
  event.kind = CodeNamed<trace::Kind>(kind, trace::kKindCount, trace::KindName);
  event.track = static_cast<uint32_t>(std::stoul(track.substr(1)));
  auto keys = KeysOf(bar == std::string::npos ? "" : line.substr(bar + 1));
  if (keys.contains("corr")) event.correlation = std::stoull(keys["corr"]);
  if (keys.contains("comm")) event.comm = input.strings.Intern(keys["comm"]);
  if (keys.contains("seq")) event.sequence = std::stoi(keys["seq"]);
  if (keys.contains("bytes")) event.bytes = std::stoll(keys["bytes"]);
  if (keys.contains("request")) event.request = input.strings.Intern(keys["request"]);
  if (keys.contains("flags")) event.flags = static_cast<uint16_t>(std::stoul(keys["flags"]));
  if (track[0] == 's') event.flags |= trace::kFlagOnDevice;
  input.processes.back().events.Append(event);
}

Input ReadInput(const fs::path& path) {
  Input input;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with("process")) {
      ReadProcess(line, input);
    } else {
      ReadEvent(line, input);
    }
  }
  return input;
}

std::string TreeText(const Input& input, const Process& process) {
  TreeStats stats;
  std::string text;
  for (const CallTree& tree : BuildCallTrees(process.events, stats)) {
    text += fmt::format("{} {}\n", tree.key.device ? "stream" : "thread", tree.key.track);
    for (std::size_t i = 0; i < tree.size(); ++i) {
      text += fmt::format("{:{}}{} {}..{} self {}\n", "", 2 + 2 * tree.depth[i],
                          input.strings.View(process.events.name[tree.event[i]]), tree.begin_ns[i],
                          tree.end_ns[i], tree.self_ns[i]);
    }
  }
  return text;
}

std::string NodeText(const RunForest& run, const StepForest& step, std::size_t i) {
  const StepNode& node = step.nodes[i];
  const std::string entry =
      node.entry_delay_ns == 0 ? "" : fmt::format(", joined after {}", node.entry_delay_ns);
  return fmt::format(
      "{:{}}#{} {} at {} for {}, host {}, device {}, gap {}{}\n", "", 4 + 2 * node.depth, i,
      run.symbols.View(StringId{static_cast<uint32_t>(Index(node.symbol))}), node.begin_ns,
      node.duration_ns, node.host_self_ns, node.device_busy_ns, node.gap_before_ns, entry);
}

std::string StepText(const RunForest& run, const StepForest& step) {
  static constexpr const char* kEdges[] = {"launch", "collective", "message", "thread"};
  std::string text =
      fmt::format("step {}: {}..{}, {}, batch {}, context {}", step.engine_step, step.begin_ns,
                  step.end_ns, PhaseName(step.phase), step.batch_size, step.context_tokens);
  for (const std::string& request : step.requests) text += " " + request;
  text += "\n";
  for (std::size_t t = 0; t < step.tracks.size(); ++t) {
    text += fmt::format("  rank {} track {} {}\n", static_cast<int>(step.tracks[t].rank),
                        step.tracks[t].track, step.tracks[t].device ? "device" : "host");
    const auto [first, last] = step.TrackNodes(t);
    for (std::size_t i = first; i < last; ++i) text += NodeText(run, step, i);
  }
  for (const StepEdge& edge : step.edges) {
    text += fmt::format("  {} #{} -> #{}\n", kEdges[static_cast<int>(edge.type)],
                        static_cast<int>(edge.from), static_cast<int>(edge.to));
  }
  return text;
}

std::string Found(const Input& input) {
  std::string text;
  RunBuilder builder(input.strings);
  std::vector<CollectiveRecord> records;
  for (std::size_t p = 0; p < input.processes.size(); ++p) {
    const Process& process = input.processes[p];
    text += fmt::format("process {}\n{}", p, TreeText(input, process));
    builder.AddProcess(static_cast<int>(p), process.info, process.events, process.clock);
    const auto more = CollectivesOf(static_cast<int>(p), process.events);
    records.insert(records.end(), more.begin(), more.end());
  }
  const RunForest run = builder.Finish(records, MatchCollectives(records));
  for (const StepForest& step : run.steps) text += StepText(run, step);
  for (const auto& [name, count] : builder.stats()) text += fmt::format("{} {}\n", name, count);
  return text;
}

std::vector<fs::path> Cases() {
  std::vector<fs::path> cases;
  for (const auto& entry :
       fs::directory_iterator(fs::path(TELLER_SOURCE_DIR) / "tests/golden/reconstruct")) {
    if (entry.is_directory()) cases.push_back(entry.path());
  }
  std::ranges::sort(cases);
  return cases;
}

class ReconstructGoldenTest : public testing::TestWithParam<fs::path> {};

TEST_P(ReconstructGoldenTest, MatchesExpected) {
  const fs::path expected = GetParam() / "expected.txt";
  const std::string found = Found(ReadInput(GetParam() / "input.txt"));
  if (std::getenv("TELLER_UPDATE_GOLDEN") != nullptr)
    WriteFileAtomically(expected, found, /*force=*/true);
  EXPECT_EQ(found, ReadFile(expected));
}

INSTANTIATE_TEST_SUITE_P(Cases, ReconstructGoldenTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.filename().string(); });

}  // namespace
}  // namespace teller::reconstruct
