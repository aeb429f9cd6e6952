#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace teller::interop {

/// Track numbers for the streams and threads of one process. A stream or thread keeps its own
/// number where it fits and no other device of the process has taken it; else it gets one that is
/// free, and `renumbered` counts it.
class TrackNumbers {
 public:
  uint32_t Stream(int64_t device, int64_t stream) {
    return Number(streams_, {device, stream}, stream);
  }
  uint32_t Thread(int64_t thread) { return Number(threads_, {0, thread}, thread); }
  int64_t renumbered() const { return renumbered_; }

 private:
  using Key = std::pair<int64_t, int64_t>;
  struct Table {
    std::map<Key, uint32_t> tracks;
    std::map<uint32_t, Key> owners;
    Key last_key{-1, -1};
    uint32_t last_track = 0;
    uint32_t next_spare = 0x40000000;  // above thread ids (4,194,304 at most) and stream ids
    bool has_last = false;
  };

  uint32_t Number(Table& table, Key key, int64_t wanted);

  Table streams_;
  Table threads_;
  int64_t renumbered_ = 0;
};

}  // namespace teller::interop
