#include "src/reconstruct/call_tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace teller::reconstruct {
namespace {

// An event to be placed: its begin from the earliest one, and its index.
struct Key {
  uint64_t begin = 0;
  uint32_t index = 0;
};

bool LeftOut(const trace::EventTable& events, std::size_t i, TreeStats& stats) {
  const uint16_t flags = events.flags[i];
  if ((flags & (trace::kFlagNoTiming | trace::kFlagJoined | trace::kFlagOtherThreadEnd)) == 0)
    return false;
  if ((flags & trace::kFlagNoTiming) != 0) return ++stats.without_timing > 0;
  if ((flags & trace::kFlagJoined) != 0) return ++stats.joined > 0;
  return events.kind[i] == trace::Kind::kStartEnd && ++stats.across_threads > 0;
}

std::vector<Key> Keys(const trace::EventTable& events, TreeStats& stats) {
  std::vector<Key> keys;
  keys.reserve(events.size());
  uint64_t earliest = UINT64_MAX;
  // Flipping the sign bit makes unsigned order the order of times.
  constexpr uint64_t kSign = uint64_t{1} << 63;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (LeftOut(events, i, stats)) continue;
    const uint64_t begin = static_cast<uint64_t>(events.begin_ns[i]) ^ kSign;
    earliest = std::min(earliest, begin);
    keys.push_back({begin, static_cast<uint32_t>(i)});
  }
  for (Key& key : keys) key.begin -= earliest;
  return keys;
}

// Least significant digit first, 11 bits at a time, as many digits as the largest begin has.
void RadixSort(std::vector<Key>& keys) {
  constexpr int kDigitBits = 11;
  constexpr uint64_t kMask = (uint64_t{1} << kDigitBits) - 1;
  uint64_t largest = 0;
  for (const Key& key : keys) largest = std::max(largest, key.begin);
  std::vector<Key> other(keys.size());
  for (int shift = 0; shift < 64 && (largest >> shift) != 0; shift += kDigitBits) {
    std::array<uint32_t, kMask + 1> starts{};
    for (const Key& key : keys) ++starts[(key.begin >> shift) & kMask];
    uint32_t sum = 0;
    for (uint32_t& start : starts) start = std::exchange(sum, sum + start);
    for (const Key& key : keys) other[starts[(key.begin >> shift) & kMask]++] = key;
    keys.swap(other);
  }
}

void SortByBegin(std::vector<Key>& keys) {
  if (!std::ranges::is_sorted(keys, {}, &Key::begin)) RadixSort(keys);
}

// Orders the events of one track that begin together.
void OrderTies(const trace::EventTable& events, std::vector<Key>& keys) {
  const auto order = [&](const Key& key) {
    const std::size_t i = key.index;
    return std::tuple(-std::max(events.end_ns[i], events.begin_ns[i]), events.layer[i],
                      events.kind[i], events.name[i], events.correlation[i], key.index);
  };
  for (auto first = keys.begin(); first != keys.end();) {
    auto last = first + 1;
    while (last != keys.end() && last->begin == first->begin) ++last;
    if (last - first > 1)
      std::sort(first, last, [&](const Key& a, const Key& b) { return order(a) < order(b); });
    first = last;
  }
}

struct TrackKeys {
  TrackKey key;
  std::vector<Key> keys;
};

// Splits sorted keys by track; tracks in the order of their first begin.
std::vector<TrackKeys> SplitByTrack(const trace::EventTable& events, const std::vector<Key>& keys) {
  std::vector<TrackKeys> tracks;
  std::map<TrackKey, std::size_t> positions;
  TrackKey last{};
  std::size_t position = std::numeric_limits<std::size_t>::max();
  for (const Key& key : keys) {
    const TrackKey track{events.track[key.index],
                         (events.flags[key.index] & trace::kFlagOnDevice) != 0};
    if (position >= tracks.size() || track != last) {
      const auto [found, fresh] = positions.emplace(track, tracks.size());
      if (fresh) tracks.push_back({track, {}});
      position = found->second;
      last = track;
    }
    tracks[position].keys.push_back(key);
  }
  return tracks;
}

class TreeBuilder {
 public:
  TreeBuilder(const trace::EventTable& events, TreeStats& stats) : events_(events), stats_(stats) {}

  CallTree Build(const TrackKeys& track) {
    tree_.key = track.key;
    Reserve(track.keys.size());
    for (const Key& key : track.keys) Place(key.index);
    while (!open_.empty()) CloseTop();
    ComputeSelf();
    return std::move(tree_);
  }

 private:
  static constexpr std::size_t kMaxDepth = std::numeric_limits<uint16_t>::max();

  void Reserve(std::size_t count) {
    tree_.event.reserve(count);
    tree_.parent.reserve(count);
    tree_.next.reserve(count);
    tree_.depth.reserve(count);
    tree_.begin_ns.reserve(count);
    tree_.end_ns.reserve(count);
  }

  void Place(uint32_t index) {
    const int64_t begin_ns = events_.begin_ns[index];
    int64_t end_ns = events_.end_ns[index];
    if (end_ns < begin_ns) {
      ++stats_.backwards;
      end_ns = begin_ns;
    }
    end_ns = CloseUntilInside(begin_ns, end_ns);
    if (open_.size() > kMaxDepth) {
      ++stats_.too_deep;
      return;
    }
    const auto position = static_cast<int32_t>(tree_.size());
    tree_.event.push_back(index);
    tree_.parent.push_back(open_.empty() ? -1 : open_.back());
    tree_.next.push_back(position + 1);
    tree_.depth.push_back(static_cast<uint16_t>(open_.size()));
    tree_.begin_ns.push_back(begin_ns);
    tree_.end_ns.push_back(end_ns);
    open_.push_back(position);
  }

  // Closes what the interval is not inside of; answers its end, cut to its parent's where they
  // cross.
  int64_t CloseUntilInside(int64_t begin_ns, int64_t end_ns) {
    while (!open_.empty()) {
      int64_t& parent_end_ns = tree_.end_ns[static_cast<std::size_t>(open_.back())];
      if (parent_end_ns > begin_ns) {
        if (end_ns <= parent_end_ns) return end_ns;
        if (parent_end_ns - begin_ns >= end_ns - parent_end_ns) {
          ++stats_.cut_to_parent;
          return parent_end_ns;
        }
        ++stats_.cut_to_sibling;
        parent_end_ns = begin_ns;
      }
      CloseTop();
    }
    return end_ns;
  }

  void CloseTop() {
    tree_.next[static_cast<std::size_t>(open_.back())] = static_cast<int32_t>(tree_.size());
    open_.pop_back();
  }

  void ComputeSelf() {
    tree_.self_ns.resize(tree_.size());
    for (std::size_t i = 0; i < tree_.size(); ++i) {
      const int64_t duration_ns = tree_.end_ns[i] - tree_.begin_ns[i];
      tree_.self_ns[i] = duration_ns;
      if (tree_.parent[i] >= 0)
        tree_.self_ns[static_cast<std::size_t>(tree_.parent[i])] -= duration_ns;
    }
  }

  const trace::EventTable& events_;
  TreeStats& stats_;
  CallTree tree_;
  std::vector<int32_t> open_;  // positions of the intervals that contain the current begin
};

}  // namespace

std::vector<CallTree> BuildCallTrees(const trace::EventTable& events, TreeStats& stats) {
  std::vector<Key> keys = Keys(events, stats);
  SortByBegin(keys);
  std::vector<CallTree> trees;
  std::vector<TrackKeys> tracks = SplitByTrack(events, keys);
  for (TrackKeys& track : tracks) {
    OrderTies(events, track.keys);
    trees.push_back(TreeBuilder(events, stats).Build(track));
  }
  const auto order = [](const CallTree& tree) {
    return std::tuple(tree.begin_ns.front(), tree.key.device, tree.key.track);
  };
  std::ranges::sort(trees, {}, order);
  return trees;
}

}  // namespace teller::reconstruct
