#include "src/reconstruct/collectives.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace teller::reconstruct {
namespace {

// Lower case without separators: 'all_reduce', 'AllReduce' and 'allreduce' are one word.
std::string Squeezed(std::string_view name) {
  std::string squeezed;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') squeezed.push_back(static_cast<char>(c - 'A' + 'a'));
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) squeezed.push_back(c);
  }
  return squeezed;
}

// What two records must share. `name` counts only where the sequence is unknown; `ordinal` is then
// the position.
using MatchKey = std::tuple<StringId, StringId, int64_t>;

}  // namespace

std::vector<CollectiveRecord> CollectivesOf(int process, const trace::EventTable& events) {
  constexpr uint16_t kUnusable = trace::kFlagJoined | trace::kFlagOpen | trace::kFlagNoTiming;
  std::vector<CollectiveRecord> records;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.kind[i] != trace::Kind::kCollective || (events.flags[i] & kUnusable) != 0) continue;
    records.push_back({process, i, events.comm[i], events.name[i], events.sequence[i],
                       events.begin_ns[i], events.end_ns[i]});
  }
  std::ranges::stable_sort(
      records, {}, [](const CollectiveRecord& r) { return std::tuple(r.begin_ns, r.end_ns); });
  return records;
}

CollectiveEntries EntriesOf(const trace::EventTable& events) {
  CollectiveEntries entries;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events.kind[i] != trace::Kind::kCollective || events.sequence[i] < 0 ||
        (events.flags[i] & trace::kFlagJoined) == 0)
      continue;
    entries.emplace(std::pair(events.comm[i], events.sequence[i]), events.begin_ns[i]);
  }
  return entries;
}

std::vector<MatchedCollective> MatchCollectives(std::span<const CollectiveRecord> records) {
  std::map<MatchKey, MatchedCollective> groups;
  std::map<std::tuple<int, StringId, StringId>, int64_t> ordinals;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const CollectiveRecord& r = records[i];
    const MatchKey key = r.sequence >= 0
                             ? MatchKey{r.comm, kNoString, r.sequence}
                             : MatchKey{r.comm, r.name, ordinals[{r.process, r.comm, r.name}]++};
    std::vector<std::size_t>& members = groups[key].records;
    const auto same_process = [&](std::size_t other) {
      return records[other].process == r.process;
    };
    if (std::ranges::none_of(members, same_process)) members.push_back(i);
  }
  std::vector<MatchedCollective> matched;
  for (auto& [key, group] : groups) {
    if (group.records.size() < 2) continue;
    std::ranges::sort(group.records, {}, [&](std::size_t i) { return records[i].process; });
    matched.push_back(std::move(group));
  }
  return matched;
}

bool EndsTogether(std::string_view name) {
  const std::string squeezed = Squeezed(name);
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"allreduce", "allgather", "reducescatter", "alltoall",
                                              "barrier"},
      [&](std::string_view word) { return squeezed.find(word) != std::string::npos; });
}

}  // namespace teller::reconstruct
