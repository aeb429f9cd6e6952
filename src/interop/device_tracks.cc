#include "src/interop/device_tracks.h"

#include <limits>

namespace teller::interop {

uint32_t TrackNumbers::Number(Table& table, Key key, int64_t wanted) {
  if (table.has_last && table.last_key == key) return table.last_track;
  auto found = table.tracks.find(key);
  if (found == table.tracks.end()) {
    constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
    auto track = static_cast<uint32_t>(wanted);
    if (wanted < 0 || wanted > kMax || table.owners.contains(track)) {
      ++renumbered_;
      while (table.owners.contains(table.next_spare)) ++table.next_spare;
      track = table.next_spare;
    }
    table.owners.emplace(track, key);
    found = table.tracks.emplace(key, track).first;
  }
  table.last_key = key;
  table.last_track = found->second;
  table.has_last = true;
  return found->second;
}

}  // namespace teller::interop
